"""The loop of a stage that has a thread or a process of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from omni_verify.pipeline.stages.core import StageCore
from omni_verify.pipeline.stages.messages import StageEvent

__all__ = ["Command", "StageLoop"]

logger = logging.getLogger(__name__)

FIRST_WAIT_S = 0.0005
"""First sleep of a stage whose requests wait for chunks; doubles up to `LONGEST_WAIT_S`."""
LONGEST_WAIT_S = 0.005
"""Longest sleep while requests are live, so what the latency of one chunk may grow by."""
IDLE_WAIT_S = 0.05
"""Sleep of a stage without requests; late send failures are still collected."""
STATISTICS_PERIOD_S = 0.5
"""Time between two statistics snapshots."""

Command = Callable[[StageCore], None]


class StageLoop:
    """Apply commands in order, tick, publish; `run` returns after `stop`, with the stage closed.

    Args:
        publish: takes the events of a round; called on the loop's thread.
        snapshot: takes the statistics now and then; called on the loop's thread.
    """

    def __init__(
        self,
        core: StageCore,
        publish: Callable[[list[StageEvent]], None],
        snapshot: Callable[[dict[str, float]], None],
    ) -> None:
        self._core, self._publish, self._snapshot = core, publish, snapshot
        self._commands: deque[Command] = deque()
        self._condition = threading.Condition()
        self._stopping = False
        self._snapshot_due = 0.0

    def post(self, command: Command) -> None:
        """Queue one command; safe from any thread."""
        with self._condition:
            self._commands.append(command)
            self._condition.notify()

    def stop(self) -> None:
        """Make `run` return after its current round; safe from any thread and from a signal handler."""
        self._stopping = True

    def wake(self) -> None:
        """End the loop's current sleep."""
        with self._condition:
            self._condition.notify()

    def run(self) -> None:
        """Run the stage until stopped, then close it."""
        pause = FIRST_WAIT_S
        try:
            while not self._stopping:
                progress = self._round()
                pause = FIRST_WAIT_S if progress else min(2 * pause, LONGEST_WAIT_S)
                if not progress:
                    self._sleep(pause if self._core.busy() else IDLE_WAIT_S)
        finally:
            self._core.close()

    def _round(self) -> bool:
        progress = self._apply_commands()
        try:
            progress |= self._core.tick()
        except Exception:
            # A broken round must not end the stage: what failed shows as a stalled or failed request.
            logger.exception("stage %d: round failed", self._core.stage_id)
        events = self._core.take_events()
        if events:
            self._publish(events)
        now = time.monotonic()
        if now >= self._snapshot_due:
            self._snapshot_due = now + STATISTICS_PERIOD_S
            self._snapshot(self._core.statistics())
        return progress or bool(events)

    def _apply_commands(self) -> bool:
        with self._condition:
            commands, self._commands = self._commands, deque()
        for command in commands:
            try:
                command(self._core)
            except Exception:
                logger.exception("stage %d: command failed", self._core.stage_id)
        return bool(commands)

    def _sleep(self, seconds: float) -> None:
        with self._condition:
            if not self._commands and not self._stopping:
                self._condition.wait(seconds)
