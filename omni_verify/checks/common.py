"""The common checks: declared once per invariant family, applied to every scenario."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from omni_verify.checks.liveness import check_blocked, check_failures, check_threads
from omni_verify.checks.observation import Broken, Observation
from omni_verify.checks.residue import check_closed, check_quiet, check_state
from omni_verify.checks.streams import check_frames, check_terminals
from omni_verify.verdict import Finding

__all__ = ["COMMON", "attribute", "run_common"]

COMMON: tuple[Callable[[Observation], list[Broken]], ...] = (
    check_blocked,
    check_failures,
    check_frames,
    check_terminals,
    check_quiet,
    check_closed,
    check_state,
    check_threads,
)


def run_common(seen: Observation) -> list[Broken]:
    """Run every common check on one observation."""
    return [broken for check in COMMON for broken in check(seen)]


def attribute(broken: Iterable[Broken], declared: Sequence[str]) -> tuple[list[Finding], list[Finding]]:
    """Split into findings on declared invariants and side findings.

    One observation can break several contracts: it gives one finding for each declared invariant
    of its family (``"*"`` stands for every declared one), or one side finding on the family's first.
    """
    findings: list[Finding] = []
    side: list[Finding] = []
    for item in broken:
        named = [i for i in declared if i in item.family or "*" in item.family]
        into = findings if named else side
        for invariant in named or [next(i for i in item.family if i != "*")]:
            into.append(
                Finding(
                    invariant=invariant,
                    message=item.message,
                    expected=item.expected,
                    found=item.found,
                    key=item.key,
                    evidence=item.evidence,
                )
            )
    return findings, side
