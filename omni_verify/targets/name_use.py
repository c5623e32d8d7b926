"""Which names the code of a module uses, read from its bytecode."""

from __future__ import annotations

import dis
import functools
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

__all__ = ["names_used"]

_GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")


@functools.cache
def names_used(module: ModuleType) -> frozenset[str]:
    """Return the global names that functions and classes of the module load, ``name`` and ``name.attr``.

    A name that is merely imported is not in it: a point that no code can reach must not look available.
    Computed once a module, on the code as it was then; targets ask when they have loaded, so that every case
    that is forked afterwards finds the answer ready.
    """
    names: set[str] = set()
    for code in _code_of(module):
        before = ""
        for step in dis.get_instructions(code):
            if step.opname in _GLOBALS:
                before = str(step.argval)
                names.add(before)
            else:
                if before and step.opname in _ATTRIBUTES:
                    names.add(f"{before}.{step.argval}")
                before = ""
    return frozenset(names)


def _code_of(module: ModuleType) -> Iterator[CodeType]:
    """Yield the code of everything that is defined in the module, nested functions included."""
    stack: list[Any] = [v for v in vars(module).values() if getattr(v, "__module__", None) == module.__name__]
    seen: set[int] = set()
    while stack:
        item = stack.pop()
        if item is None or id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, CodeType):
            yield item
            stack += [constant for constant in item.co_consts if isinstance(constant, CodeType)]
        elif isinstance(item, staticmethod | classmethod):
            stack.append(item.__func__)
        elif isinstance(item, property):
            stack += [item.fget, item.fset]
        elif isinstance(item, FunctionType):
            stack += [item.__code__, getattr(item, "__wrapped__", None)]
        elif isinstance(item, type) and item.__module__ == module.__name__:
            stack += vars(item).values()
