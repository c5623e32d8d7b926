"""Several targets, each in its own process, what was found against what was expected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from omni_verify.campaign.check import check
from omni_verify.campaign.events import Emit
from omni_verify.campaign.known_failures import KnownFailures, shipped
from omni_verify.campaign.result import RunResult
from omni_verify.campaign.zygote import CATALOGUE, Zygote
from omni_verify.errors import UsageError
from omni_verify.settings import Settings

__all__ = ["MatrixResult", "matrix"]


class MatrixResult(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of a matrix, in the order of the specs.

    Attributes:
        passed: every gate is free of problems and no run was interrupted.
    """

    schema: Literal["omni-verify/matrix/1"] = "omni-verify/matrix/1"
    passed: bool
    runs: tuple[RunResult, ...]


def matrix(
    specs: Sequence[str],
    select: Sequence[str] = (),
    *,
    loader: str = "auto",
    jobs: int | None = None,
    isolation: str = "auto",
    known: KnownFailures | None = None,
    settings: Settings | None = None,
    emit_for: Callable[[str], Emit] = lambda spec: lambda event: None,
    zygote: Callable[..., Zygote] = Zygote,
    package: str = CATALOGUE,
) -> MatrixResult:
    """Check every target in turn against the known failures (the shipped ones when None).

    Raises:
        UsageError: no target, or the same one twice.
        TargetUnusableError: a target cannot be had or loaded.
    """
    if not specs:
        raise UsageError("matrix needs at least one --version or --target.")
    twice = {spec for spec in specs if list(specs).count(spec) > 1}
    if twice:
        raise UsageError(f"the target {min(twice)!r} is given twice.")
    runs: list[RunResult] = []
    for spec in specs:
        run = check(
            spec,
            select,
            loader=loader,
            jobs=jobs,
            isolation=isolation,
            known=known or shipped(),
            settings=settings,
            emit=emit_for(spec),
            zygote=zygote,
            command="matrix",
            package=package,
        )
        runs.append(run)
        if run.interrupted:
            break
    passed = len(runs) == len(specs) and all(not r.gate and not r.interrupted for r in runs)
    return MatrixResult(passed=passed, runs=tuple(runs))
