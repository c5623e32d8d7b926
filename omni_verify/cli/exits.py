"""What a command's end means to the shell: interruption first, then the gate, then the verdict."""

from __future__ import annotations

import signal
from typing import Protocol

from omni_verify.campaign import RunResult
from omni_verify.verdict import Verdict, exit_code

__all__ = ["code_of", "gate_code"]


class Ended(Protocol):
    """A run that has ended; `interrupted` names the signal that ended it early, if one did."""

    @property
    def verdict(self) -> Verdict: ...
    @property
    def interrupted(self) -> str: ...


def code_of(run: Ended, *, allow_inconclusive: bool = False) -> int:
    """Exit code of a run: 128 and the signal's number, or that of its verdict."""
    if run.interrupted:
        return 128 + int(signal.Signals[run.interrupted])
    return exit_code(run.verdict, allow_inconclusive=allow_inconclusive)


def gate_code(result: RunResult, *, allow_inconclusive: bool = False, strict: bool = False) -> int:
    """Exit code of a run over the catalogue, whose gate compares with what was expected."""
    code = code_of(result, allow_inconclusive=allow_inconclusive)
    if result.gate is not None and not result.interrupted:
        kinds = {problem.kind for problem in result.gate}
        if kinds - {"inconclusive"}:
            return 1
        code = 3 if kinds and not allow_inconclusive else 0
    skipped = any(case.verdict == "not_applicable" for case in result.cases)
    return 3 if strict and skipped and code == 0 else code
