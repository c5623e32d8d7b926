"""Which test guards which invariant: read from markers, and from a table for tests without one."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from omni_verify.contracts import invariants
from omni_verify.errors import UsageError

__all__ = ["TABLE", "read_guards"]

TABLE = "quality/mutants/guards.toml"
"""Below the folder of tests: ``[guards]``, node id without parameters = list of invariant ids."""


def read_guards(tests: Path) -> dict[str, tuple[str, ...]]:
    """Return node id -> invariant ids of every test that names an invariant; `tests` is part of the node id.

    A test names it by ``@pytest.mark.invariant("I12")`` or by an entry of the table.

    Raises:
        UsageError: an unknown invariant, or an entry for a test that does not exist.
    """
    guards = dict(_marked(tests))
    table = tests / TABLE
    if table.is_file():
        for node, ids in tomllib.loads(table.read_text())["guards"].items():
            file, _, name = node.partition("::")
            path = tests / file
            if not path.is_file() or (name and name not in _functions(path)):
                raise UsageError(f"{table}: there is no test {node!r}. Correct or remove the entry.")
            guards[f"{tests}/{node}"] = tuple(ids)
    for node, ids in guards.items():
        for invariant in ids:
            if invariant not in invariants.INVARIANTS:
                raise UsageError(f"{node} names the unknown invariant {invariant!r}.")
    return guards


def _marked(tests: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    for path in sorted(tests.rglob("test_*.py")):
        text = path.read_text()
        if "mark.invariant(" not in text:
            continue
        for name, function in _functions(path, text).items():
            ids = tuple(i for decorator in function.decorator_list for i in _ids_of(decorator))
            if ids:
                yield f"{path}::{name}", ids


def _functions(path: Path, text: str | None = None) -> Mapping[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    tree = ast.parse(text if text is not None else path.read_text())
    return {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}


def _ids_of(decorator: ast.expr) -> Iterator[str]:
    if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.invariant":
        yield from (str(a.value) for a in decorator.args if isinstance(a, ast.Constant))
