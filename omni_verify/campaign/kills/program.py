"""Runs the kill matrix in a process of its own, with a private /dev/shm, and hands its cells over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from types import FrameType

import msgspec

from omni_verify.audit import namespace
from omni_verify.campaign.kills.matrix import FULL, Cell, KillMatrix, Plan
from omni_verify.errors import OmniVerifyError, TargetUnusableError

__all__ = ["kill_matrix"]


def kill_matrix(plan: Plan = FULL, emit: Callable[[Cell], None] | None = None) -> list[Cell]:
    """Run the cells in a private /dev/shm and return them.

    The work is done by a process of its own, because a mount namespace cannot be left again, and because the
    caller may have loaded torch, which would make it a possible participant of what is audited.

    Args:
        plan: phases with their victims.
        emit: takes each cell when it is complete.

    Raises:
        TargetUnusableError: no private /dev/shm can be had here.
        OmniVerifyError: the matrix could not be run to its end; says what was waited for.
    """
    if reason := namespace.available():
        raise TargetUnusableError(f"the kill matrix needs a private /dev/shm: {reason}")
    program = f"from {__name__} import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, msgspec.json.encode(list(plan)).decode()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    cells = []
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            for line in process.stdout:
                cells.append(msgspec.json.decode(line, type=Cell))
                if emit is not None:
                    emit(cells[-1])
        finally:
            process.terminate()  # its handler ends the pipelines; one that is through does not notice
            problem = process.stderr.read().decode()
    if process.returncode not in (0, -signal.SIGTERM):
        raise OmniVerifyError(f"the kill matrix did not finish: {problem.strip()[-20_000:]}")
    return cells


def main() -> None:
    """Run a plan given as JSON; write one cell a line."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    plan = msgspec.json.decode(sys.argv[1], type=list[tuple[str, tuple[str, ...]]])
    namespace.enter()

    def write(cell: Cell) -> None:
        sys.stdout.buffer.write(msgspec.json.encode(cell) + b"\n")
        sys.stdout.flush()

    try:
        KillMatrix(write).run(plan)
    except (KeyboardInterrupt, BrokenPipeError):
        raise SystemExit(128 + signal.SIGTERM) from None
    except OmniVerifyError as error:
        raise SystemExit(str(error)) from error
