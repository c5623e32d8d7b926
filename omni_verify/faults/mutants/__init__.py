"""Seeded bugs: each file makes one change to the reference, and says which invariant that must break.

Importing this package registers every mutant as a variant of the reference (``reference@M33``). Nothing of
the pipeline is imported before a mutant is applied.

Weak spots without a mutant of their number: W5 is M21, W31 is M50b and W07. W13, W14 and W35 are races of
two statements that no connector call and no point separates, so no bounded run could tell such a mutant from
the reference. W30 is a cost and no defect.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
from collections.abc import Callable

from omni_verify.errors import unknown_value
from omni_verify.faults.mutants.mutant import Mutant, MutantStaleError
from omni_verify.targets.registry import register_variant

__all__ = ["Mutant", "MutantStaleError", "apply", "catalogue", "get"]

_FILE = re.compile(r"(?P<kind>[mhw])(?P<number>\d+)(?P<letter>[a-z]?)_\w+")


def _id_of(module_name: str) -> str | None:
    """Return the id that a file's name tells: ``m02a_...`` is M2a, ``h01_...`` is H01."""
    match = _FILE.fullmatch(module_name)
    if match is None:
        return None
    number = str(int(match["number"])) if match["kind"] == "m" else match["number"]
    return f"{match['kind'].upper()}{number}{match['letter']}"


_MODULES = {
    mutant_id: f"{__name__}.{module.name}"
    for module in pkgutil.iter_modules(__path__)
    if (mutant_id := _id_of(module.name)) is not None
}


def get(mutant_id: str) -> Mutant:
    """Return the description of a mutant.

    Raises:
        UsageError: no such mutant; the nearest is named.
    """
    mutant: Mutant = importlib.import_module(_module_of(mutant_id)).MUTANT
    return mutant


def catalogue() -> dict[str, Mutant]:
    """Return every mutant by id, in the order of the file names."""
    return {mutant_id: get(mutant_id) for mutant_id in _MODULES}


def apply(mutant_id: str) -> None:
    """Make the mutant's change in this process; there is no way back.

    Raises:
        UsageError: no such mutant.
        MutantStaleError: the reference has changed where the mutant changes it.
    """
    change: Callable[[], None] = importlib.import_module(_module_of(mutant_id)).apply
    change()


def _module_of(mutant_id: str) -> str:
    if mutant_id not in _MODULES:
        raise unknown_value("mutant", mutant_id, _MODULES)
    return _MODULES[mutant_id]


def _apply_to(target: object, *, mutant_id: str) -> None:
    apply(mutant_id)


for _mutant_id in _MODULES:
    register_variant(_mutant_id, functools.partial(_apply_to, mutant_id=_mutant_id))
