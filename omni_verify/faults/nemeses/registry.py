"""The nemeses by name; the modules of this folder are the registry."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Sequence

from omni_verify.errors import unknown_value
from omni_verify.faults.nemeses.spec import NemesisSpec
from omni_verify.targets.protocol import Capabilities

__all__ = ["choose", "nemeses"]

_PARTS = {"registry", "roaming", "spec"}


@functools.cache
def nemeses() -> dict[str, NemesisSpec]:
    """Return every nemesis by name, sorted."""
    package = importlib.import_module("omni_verify.faults.nemeses")
    found: dict[str, NemesisSpec] = {}
    for module in pkgutil.iter_modules(package.__path__):
        if module.name not in _PARTS:
            spec = importlib.import_module(f"{package.__name__}.{module.name}").NEMESIS
            found[spec.name] = spec
    return dict(sorted(found.items()))


def choose(names: Sequence[str], capabilities: Capabilities | None = None) -> list[NemesisSpec]:
    """Return the nemeses of those names that may roam on a target.

    Args:
        names: names, or ``["all"]``, or ``["none"]`` or nothing.
        capabilities: leave out those that need what the target does not claim; None leaves out none.

    Raises:
        UsageError: there is no such nemesis, or it strikes processes, which only a script can do.
    """
    known = {n: s for n, s in nemeses().items() if not s.processes}
    wanted = list(known) if list(names) == ["all"] else [n for n in names if n != "none"]
    for name in wanted:
        if name not in known:
            raise unknown_value("nemesis", name, known, hint="List them with: omni-verify list nemeses")
    return [
        known[n]
        for n in wanted
        if capabilities is None or not known[n].needs or getattr(capabilities, known[n].needs)
    ]
