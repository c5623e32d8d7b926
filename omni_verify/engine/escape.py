"""Local containers that no other thread can see: accesses to them are no decision points.

A name is private to its function when it is only ever bound to a fresh list, dict or set, does not occur in
a nested function, and is used only in ways that do not hand the container on: iterated, indexed, tested for
membership, measured, or as the receiver of a method.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

__all__ = ["private_names"]

_FRESH = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
_NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_MEASURES = frozenset({"len", "sum", "any", "all", "min", "max", "bool"})


def private_names(function: ast.AST) -> frozenset[str]:
    """Names of the private containers of a function definition."""
    bound: set[str] = set()
    other: set[str] = set()
    for parent, node in _pairs(function):
        if isinstance(node, _NESTED):
            other |= {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            other |= set(node.names)
        elif isinstance(node, ast.arg):
            other.add(node.arg)
        elif isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                if not _keeps(parent, node):
                    other.add(node.id)
            elif (
                isinstance(parent, ast.Assign) and isinstance(parent.value, _FRESH) and node in parent.targets
            ):
                bound.add(node.id)
                if len(parent.targets) > 1:
                    other.add(node.id)  # two names for one container
            else:
                other.add(node.id)
    return frozenset(bound - other)


def _pairs(function: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Every (parent, node) of the function's own scope; nested definitions are yielded, not entered."""
    todo = [(function, child) for child in ast.iter_child_nodes(function)]
    while todo:
        parent, node = todo.pop()
        yield parent, node
        if not isinstance(node, _NESTED):
            todo.extend((node, child) for child in ast.iter_child_nodes(node))


def _keeps(parent: ast.AST, node: ast.Name) -> bool:
    """Whether this use of the name does not hand its container on."""
    if isinstance(parent, (ast.For, ast.comprehension)):
        return parent.iter is node
    if isinstance(parent, (ast.Subscript, ast.Attribute)):
        return parent.value is node
    if isinstance(parent, ast.Compare):
        return all(isinstance(op, (ast.In, ast.NotIn)) for op in parent.ops) and node in parent.comparators
    if isinstance(parent, ast.Call):
        return isinstance(parent.func, ast.Name) and parent.func.id in _MEASURES and parent.args == [node]
    return isinstance(parent, (ast.If, ast.While)) and parent.test is node
