"""Shared accesses as decision points: an AST rewrite of the functions of chosen modules.

Attribute, subscript, membership, iteration, container-method and global accesses of every function become
calls that publish the access first; ``x.n += 1`` becomes load, add, store. Points are source positions,
so a token does not depend on the bytecode of a Python version. The rewritten code object replaces
``__code__`` of the existing function: identities, closures and classes stay as they are.

Not rewritten, and so atomic: module and class bodies, generator hand-over, accesses inside C code.
"""

from __future__ import annotations

import ast
import functools
import itertools
import linecache
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from omni_verify.engine import accesses
from omni_verify.engine.access_sites import SITES
from omni_verify.engine.rewrite import Rewriter, mutable_attributes

__all__ = ["SITES", "rewrite_functions"]

Undo = Callable[[], None]
_Codes = dict[tuple[str, int], types.CodeType]
# Modules whose rewritten code is kept.
_REMEMBERED = 256
# Values in which a function may be found.
_HOLDERS = (types.FunctionType, type, staticmethod, classmethod, property)


def rewrite_functions(modules: Sequence[types.ModuleType]) -> tuple[list[Undo], list[str]]:
    """Put access points into every function of ``modules``.

    Returns:
        The actions that undo it, and the names of functions that could not be rewritten.
    """
    sources: dict[types.ModuleType, str] = {}
    missed: list[str] = []
    for module in modules:
        source = _source(module)
        if source:
            sources[module] = source
        else:
            missed.append(f"{module.__name__}: no source")
    mutable = frozenset[str]().union(*map(_mutable, sources.values()))
    undo: list[Undo] = []
    for module, source in sources.items():
        _replace_code(module, _compiled(module.__file__ or "<unknown>", source, mutable), undo, missed)
    return undo, missed


def _source(module: types.ModuleType) -> str:
    file = module.__file__ if getattr(module, "__file__", None) else ""
    linecache.checkcache(file)
    return "".join(linecache.getlines(file, vars(module))) if file else ""


# Modules are put under control again and again, and parsing one takes longer than hundreds of executions.
@functools.lru_cache(maxsize=_REMEMBERED)
def _mutable(source: str) -> frozenset[str]:
    return mutable_attributes([ast.parse(source)])


@functools.lru_cache(maxsize=_REMEMBERED)
def _compiled(filename: str, source: str, mutable: frozenset[str]) -> _Codes:
    """Rewritten code of every function of a module, by name and first line."""
    tree = Rewriter(filename, ast.parse(source), mutable).rewritten()
    return _by_position(compile(tree, filename, "exec", dont_inherit=True))


def _replace_code(module: types.ModuleType, codes: _Codes, undo: list[Undo], missed: list[str]) -> None:
    namespace = vars(module)
    namespace.update(accesses.INJECTED)
    replaced: list[tuple[types.FunctionType, types.CodeType]] = []

    def restore() -> None:
        for function, code in replaced:
            function.__code__ = code
        for name in accesses.INJECTED:
            namespace.pop(name, None)

    undo.append(restore)
    for function in _functions(module):
        old = function.__code__
        new = codes.get((old.co_qualname, old.co_firstlineno))
        if new is None or new.co_freevars != old.co_freevars:
            missed.append(f"{module.__name__}.{old.co_qualname}: no matching source")
            continue
        function.__code__ = new
        replaced.append((function, old))


def _by_position(code: types.CodeType) -> _Codes:
    found: _Codes = {}
    todo = [code]
    while todo:
        at = todo.pop()
        found.setdefault((at.co_qualname, at.co_firstlineno), at)
        todo.extend(const for const in at.co_consts if isinstance(const, types.CodeType))
    return found


def _functions(module: types.ModuleType) -> Iterator[types.FunctionType]:
    """Every function defined in ``module``: globals, methods, properties, wrapped and closed-over ones."""
    namespace, name = vars(module), module.__name__
    seen: set[int] = set()
    todo: list[Any] = list(namespace.values())
    while todo:
        value = todo.pop()
        if not isinstance(value, _HOLDERS) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, types.FunctionType):
            if value.__closure__ or value.__dict__:
                todo.extend(_reachable(value))
            if value.__module__ == name and value.__globals__ is namespace:
                yield value
        elif isinstance(value, type):
            if value.__module__ == name:
                todo.extend(vars(value).values())
        elif isinstance(value, property):
            todo += (value.fget, value.fset, value.fdel)
        else:
            todo.append(value.__func__)


def _reachable(function: types.FunctionType) -> Iterable[Any]:
    wrapped = getattr(function, "__wrapped__", None)
    cells = function.__closure__ or ()
    return itertools.chain([wrapped] if wrapped is not None else [], _contents(cells))


def _contents(cells: Iterable[types.CellType]) -> Iterator[Any]:
    for cell in cells:
        try:
            yield cell.cell_contents
        except ValueError:
            continue  # not filled yet
