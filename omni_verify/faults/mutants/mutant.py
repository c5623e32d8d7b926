"""What a mutant is, and how one change is made to a loaded reference."""

from __future__ import annotations
import __future__

import functools
import importlib
import inspect
import linecache
import sys
import textwrap
import tokenize
from collections.abc import Callable
from typing import Any

import msgspec

from omni_verify.errors import OmniVerifyError
from omni_verify.targets.name_use import names_used

__all__ = ["Mutant", "MutantStaleError", "add", "edit", "lines_of"]

_PIPELINE = "omni_verify.pipeline"
_ROOMS = (f"{_PIPELINE}.", "omni_verify.contracts.")


class MutantStaleError(OmniVerifyError):
    """The reference no longer has the text that a mutant changes; the mutant must follow it."""


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """One seeded bug.

    Attributes:
        id: ``M..`` a planned change, ``H..`` a historic behaviour, ``W..`` a weak spot that the reference
            fixes (same number).
        breaks: invariants of which a case must find at least one broken, or the mutant counts as alive.
        source: public report or article section that it comes from.
        summary: what was changed.
        equivalent: why no test can tell it from the reference; empty for a mutant that must be killed.
    """

    id: str
    breaks: tuple[str, ...]
    source: str
    summary: str
    equivalent: str = ""


def edit(place: str, *changes: tuple[str, str]) -> None:
    """Replace text in the source of one function of the reference and put the result in its place.

    The new function lives in the old one's module, so it sees the same names, replaced ones included. Only
    this process is changed, and stage processes that it spawns are not.

    Args:
        place: ``module:function`` or ``module:Class.method``, the module below ``omni_verify.pipeline``
            unless it is given in full.
        changes: (text, replacement); each text occurs exactly once in the function, which starts at column 0.

    Raises:
        MutantStaleError: a text is not there exactly once.
    """
    owner, name = _find(place)
    raw = inspect.getattr_static(owner, name)
    code = _function_of(raw).__code__
    block = inspect.getblock(list(lines_of(code.co_filename)[code.co_firstlineno - 1 :]))
    source = textwrap.dedent("".join(block))
    for text, replacement in changes:
        if source.count(text) != 1:
            raise MutantStaleError(
                f"{place} has {source.count(text)} times the text {text!r}, expected once. "
                "Bring the mutant up to date with the reference."
            )
        source = source.replace(text, replacement)
    _replace(owner, name, raw, _compile(source, _function_of(raw), owner, place))


@functools.cache
def lines_of(filename: str) -> tuple[str, ...]:
    """Return the lines of a source file as they were at the first call.

    A process that is forked many times calls this when it has loaded the reference: files may change later.
    """
    with tokenize.open(filename) as file:
        return tuple(file)


def add(place: str, function: Callable[..., Any]) -> None:
    """Give a class of the reference a method that it does not have; `place` as in `edit`."""
    owner, name = _find(place)
    setattr(owner, name, function)


def _find(place: str) -> tuple[Any, str]:
    module_name, _, path = place.partition(":")
    full = module_name if module_name.startswith("omni_verify.") else f"{_PIPELINE}.{module_name}"
    *parents, name = path.split(".")
    return functools.reduce(getattr, parents, importlib.import_module(full)), name


def _function_of(raw: Any) -> Any:
    if isinstance(raw, staticmethod | classmethod):
        return raw.__func__
    return raw.fget if isinstance(raw, property) else raw


def _compile(source: str, old: Any, owner: Any, place: str) -> Any:
    """Compile inside a function that supplies ``__class__``, as ``super()`` needs it; decorators apply."""
    filename = f"<mutant of {place}>"
    wrapped = f"def _make(__class__):\n{textwrap.indent(source, '    ')}\n    return {old.__name__}\n"
    linecache.cache[filename] = (len(wrapped), None, wrapped.splitlines(keepends=True), filename)
    code = compile(wrapped, filename, "exec", flags=__future__.annotations.compiler_flag, dont_inherit=True)
    scope: dict[str, Any] = {}
    exec(code, old.__globals__, scope)
    made = scope["_make"](owner if isinstance(owner, type) else None)
    function = _function_of(made)
    function.__module__, function.__qualname__ = old.__module__, old.__qualname__
    return made


def _replace(owner: Any, name: str, old: Any, new: Any) -> None:
    """Put the new function wherever the reference holds the old one under its name."""
    setattr(owner, name, new)
    if not isinstance(owner, type):
        for module_name, module in list(sys.modules.items()):
            if module_name.startswith(_ROOMS) and vars(module).get(name) is old:
                setattr(module, name, new)
    names_used.cache_clear()  # points are mapped by the names that a module's code uses
