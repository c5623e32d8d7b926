"""What runs inside a stage process."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from types import FrameType

from omni_verify.pipeline.stages.core import StageCore
from omni_verify.pipeline.stages.loop import Command, StageLoop
from omni_verify.pipeline.stages.messages import StageDied, StageEvent, StageReady
from omni_verify.pipeline.stages.wire import (
    AbortCommand,
    EventBatch,
    ReleaseCommand,
    StopCommand,
    SubmitCommand,
    receive,
    send,
)

__all__ = ["CoreFactory", "stage_process_main"]

logger = logging.getLogger(__name__)

CoreFactory = Callable[[bool], StageCore]
"""Picklable; builds the stage, told whether it replaces one that died."""


def stage_process_main(
    stage_id: int, factory: CoreFactory, connection: Connection, *, successor: bool
) -> None:
    """Build the stage and run it until it is told to stop or its parent is gone."""
    # Ctrl-C reaches the whole process group; the parent decides in which order stages stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        core = factory(successor)
    except Exception as error:
        logger.exception("stage %d cannot start", stage_id)
        reason = f"it cannot start: {type(error).__name__}: {error}"
        with contextlib.suppress(OSError):
            send(connection, EventBatch([StageDied(stage_id, reason, permanent=True)]))
        raise SystemExit(1) from error
    loop = StageLoop(
        core, lambda events: report(connection, events), lambda values: report(connection, [], values)
    )

    def on_terminate(_signum: int, _frame: FrameType | None) -> None:
        loop.stop()

    signal.signal(signal.SIGTERM, on_terminate)
    reader = threading.Thread(target=read_commands, args=(connection, loop), name="omni-control", daemon=True)
    reader.start()
    report(connection, [StageReady(stage_id)])
    loop.run()


def report(
    connection: Connection, events: list[StageEvent], statistics: dict[str, float] | None = None
) -> None:
    """Send a batch; with no parent left there is nobody to tell."""
    with contextlib.suppress(OSError):
        send(connection, EventBatch(events, statistics))


def read_commands(connection: Connection, loop: StageLoop) -> None:
    """Post every command of the pipe; its end means that the parent is gone."""
    try:
        while True:
            message = receive(connection)
            if isinstance(message, StopCommand):
                break
            loop.post(command_of(message))
    except (EOFError, OSError):
        logger.warning("the orchestrator's process is gone, process %d ends", os.getpid())
    loop.stop()
    loop.wake()


def command_of(message: SubmitCommand | AbortCommand | ReleaseCommand) -> Command:
    """Turn a message into what the loop does with the stage."""

    def command(core: StageCore) -> None:
        match message:
            case SubmitCommand(request):
                core.add(request)
            case AbortCommand(ids):
                core.abort(ids)
            case ReleaseCommand(ids):
                core.release(ids)

    return command
