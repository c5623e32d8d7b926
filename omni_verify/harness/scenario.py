"""Scenarios: a program over actors and stages, a partial order, and the invariants it judges."""

from __future__ import annotations

import fnmatch
import importlib
import importlib.util
import os
import pkgutil
import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from omni_verify.errors import UsageError, unknown_value
from omni_verify.targets.protocol import Capabilities

if TYPE_CHECKING:
    from omni_verify.harness.script import Script

__all__ = ["Scenario", "catalogue", "get", "load_catalogue", "scenario", "select"]

EXTRA_VARIABLE = "OMNI_VERIFY_SCENARIOS"
_ID = re.compile(r"[a-z][a-z0-9-]*/[a-z0-9][a-z0-9-]*")
_REGISTRY: dict[str, Scenario] = {}


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the catalogue.

    Attributes:
        id: ``family/name``.
        program: the body; it gets the `Script` of one run.
        story: what happens, from the docstring.
        invariants: ids that the case judges; findings on others are side findings.
        source: public report or article section that it comes from.
        weak_spots: ids of known weak spots of real releases (W..) that it exposes.
        needs: capabilities without which the scenario does not apply.
        isolation: ``"any"``, or ``"mount"`` when it needs a private mount namespace.
        processes: True when it forks peers (it is not explored under the controlled scheduler).
        explorable: True when the program may run under the controlled scheduler.
        shm_options: mount options of the private /dev/shm, for example ``"size=256k"``.
        crash: invariant that a crash of the process breaks.
        slow: True when it takes more than about five seconds.
    """

    id: str
    program: Callable[[Script], None]
    story: str
    invariants: tuple[str, ...]
    source: str
    weak_spots: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    isolation: str = "any"
    processes: bool = False
    explorable: bool = True
    shm_options: str = ""
    crash: str = "I37b"
    slow: bool = False

    def missing(self, capabilities: Capabilities) -> tuple[str, ...]:
        """Capabilities that it needs and the target does not claim."""
        return tuple(n for n in self.needs if not getattr(capabilities, n))


def scenario(
    scenario_id: str,
    *,
    invariants: Sequence[str],
    source: str,
    weak_spots: Sequence[str] = (),
    needs: Sequence[str] = (),
    processes: bool = False,
    explorable: bool | None = None,
    shm_options: str = "",
    crash: str = "I37b",
    slow: bool = False,
) -> Callable[[Callable[[Script], None]], Callable[[Script], None]]:
    """Register the decorated program as a scenario; its docstring is the story.

    Raises:
        UsageError: bad or duplicate id, no invariant, no story, or an unknown capability.
    """

    def register(program: Callable[[Script], None]) -> Callable[[Script], None]:
        story = " ".join((program.__doc__ or "").split())
        if not _ID.fullmatch(scenario_id):
            raise UsageError(f"scenario id {scenario_id!r} must read family/name in lower case and dashes.")
        if not story or not invariants:
            raise UsageError(
                f"scenario {scenario_id!r} needs a docstring (its story) and at least one invariant."
            )
        for need in needs:
            if need not in Capabilities.__struct_fields__:
                raise unknown_value("capability", need, Capabilities.__struct_fields__)
        known = _REGISTRY.get(scenario_id)
        if known is not None and known.program.__code__.co_filename != program.__code__.co_filename:
            raise UsageError(f"scenario id {scenario_id!r} is used twice.")
        _REGISTRY[scenario_id] = Scenario(
            id=scenario_id,
            program=program,
            story=story,
            invariants=tuple(invariants),
            source=source,
            weak_spots=tuple(weak_spots),
            needs=tuple(needs),
            isolation="mount" if shm_options else "any",
            processes=processes,
            explorable=not processes if explorable is None else explorable,
            shm_options=shm_options,
            crash=crash,
            slow=slow,
        )
        return program

    return register


def load_catalogue(package: str = "omni_verify.scenarios") -> dict[str, Scenario]:
    """Import every module of the catalogue package and return the registry, sorted by id.

    Files that the environment variable ``OMNI_VERIFY_SCENARIOS`` lists (separated as in ``PATH``) follow.

    Raises:
        UsageError: one of those files does not exist.
    """
    root = importlib.import_module(package)
    for module in pkgutil.iter_modules(root.__path__, f"{package}."):
        importlib.import_module(module.name)
    for path in filter(None, os.environ.get(EXTRA_VARIABLE, "").split(os.pathsep)):
        _import_file(path)
    return catalogue()


def _import_file(path: str) -> None:
    if not os.path.isfile(path):
        raise UsageError(f"no such file of scenarios: {path!r} ({EXTRA_VARIABLE} or --scenarios names it).")
    name = "omni_verify_scenarios_" + re.sub(r"\W", "_", os.path.abspath(path))
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


def catalogue() -> dict[str, Scenario]:
    """Return what is registered so far, sorted by id."""
    return dict(sorted(_REGISTRY.items()))


def get(scenario_id: str) -> Scenario:
    """Return one scenario.

    Raises:
        UsageError: unknown id; names the nearest.
    """
    if scenario_id not in _REGISTRY:
        raise unknown_value(
            "scenario", scenario_id, _REGISTRY, hint="List them with: omni-verify list scenarios"
        )
    return _REGISTRY[scenario_id]


def select(patterns: Sequence[str]) -> list[Scenario]:
    """Return the scenarios that match any glob, in id order; no pattern selects all.

    Raises:
        UsageError: a pattern without wildcard names no scenario.
    """
    everything = list(catalogue().values())
    if not patterns:
        return everything
    for pattern in patterns:
        if not set(pattern) & set("*?["):
            get(pattern)
    return [s for s in everything if any(fnmatch.fnmatchcase(s.id, p) for p in patterns)]
