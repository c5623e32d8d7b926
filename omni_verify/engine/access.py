"""Shared accesses as decision points: an AST rewrite of the functions of chosen modules.

Attribute, subscript, membership, iteration, container-method and global accesses of every function become
calls that publish the access first; ``x.n += 1`` becomes load, add, store. Points are source positions,
so a token does not depend on the bytecode of a Python version. The rewritten code object replaces
``__code__`` of the existing function: identities, closures and classes stay as they are.

Not rewritten, and so atomic: module and class bodies, generator hand-over, accesses inside C code.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from omni_verify.engine import accesses
from omni_verify.engine.access_sites import SITES
from omni_verify.engine.rewrite import Rewriter, mutable_attributes

__all__ = ["SITES", "rewrite_functions"]

Undo = Callable[[], None]


def rewrite_functions(modules: Sequence[types.ModuleType]) -> tuple[list[Undo], list[str]]:
    """Put access points into every function of ``modules``.

    Returns:
        The actions that undo it, and the names of functions that could not be rewritten.
    """
    trees: dict[types.ModuleType, ast.Module] = {}
    missed: list[str] = []
    for module in modules:
        try:
            trees[module] = ast.parse(inspect.getsource(module))
        except (OSError, TypeError):
            missed.append(f"{module.__name__}: no source")
    mutable = mutable_attributes(trees.values())
    undo: list[Undo] = []
    for module, tree in trees.items():
        _rewrite(module, Rewriter(module.__file__ or "<unknown>", tree, mutable).rewritten(), undo, missed)
    return undo, missed


def _rewrite(module: types.ModuleType, tree: ast.Module, undo: list[Undo], missed: list[str]) -> None:
    filename = module.__file__ or "<unknown>"
    codes = _by_position(compile(tree, filename, "exec", dont_inherit=True))
    namespace = vars(module)
    undo += [_restorer(namespace, name) for name in accesses.INJECTED]
    namespace.update(accesses.INJECTED)
    for function in _functions(module):
        old = function.__code__
        new = codes.get((old.co_qualname, old.co_firstlineno))
        if new is None or new.co_freevars != old.co_freevars:
            missed.append(f"{module.__name__}.{old.co_qualname}: no matching source")
            continue
        function.__code__ = new
        undo.append(lambda f=function, code=old: setattr(f, "__code__", code))  # type: ignore[misc]


def _restorer(namespace: dict[str, Any], name: str) -> Undo:
    return lambda: namespace.pop(name, None)


def _by_position(code: types.CodeType) -> dict[tuple[str, int], types.CodeType]:
    found: dict[tuple[str, int], types.CodeType] = {}
    todo = [code]
    while todo:
        at = todo.pop()
        found.setdefault((at.co_qualname, at.co_firstlineno), at)
        todo.extend(const for const in at.co_consts if isinstance(const, types.CodeType))
    return found


def _functions(module: types.ModuleType) -> Iterator[types.FunctionType]:
    """Every function defined in ``module``: globals, methods, properties, wrapped and closed-over ones."""
    seen: set[int] = set()
    todo: list[Any] = list(vars(module).values())
    while todo:
        value = todo.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, types.FunctionType):
            todo.extend(_reachable(value))
            if value.__module__ == module.__name__ and value.__globals__ is vars(module):
                yield value
        elif isinstance(value, type):
            if value.__module__ == module.__name__:
                todo.extend(vars(value).values())
        elif isinstance(value, (staticmethod, classmethod)):
            todo.append(value.__func__)
        elif isinstance(value, property):
            todo.extend(f for f in (value.fget, value.fset, value.fdel) if f is not None)


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
