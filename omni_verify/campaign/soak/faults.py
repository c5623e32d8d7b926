"""Nemeses that strike whole processes of a soak, and the restart of what has ended."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Sequence

from omni_verify.campaign.soak.options import SoakOptions
from omni_verify.campaign.soak.system import Death, SoakSystem
from omni_verify.faults.nemeses import Harm, Strike, nemeses

__all__ = ["STOP_S", "ProcessFaults"]

STOP_S = 0.5
"""Seconds for which a process is stopped."""
_LOADED = ("load", "control")
_AFTER_REST_S = 0.3


class ProcessFaults:
    """Strikes processes now and then while there is load, and knows which deaths it caused.

    Args:
        names: of the nemeses.
        options: seed, and seconds between strikes.
        system: whose processes.

    Attributes:
        starts: how often a part has come up.
        strikes: since the last look, for the ledger.
    """

    def __init__(self, names: Sequence[str], options: SoakOptions, system: SoakSystem) -> None:
        self._specs = [nemeses()[name] for name in names]
        self._system, self._dice = system, random.Random(f"{options.seed}/processes")
        self._period_s = options.process_period_s
        self._due = time.monotonic() + self._period_s
        self._stopped: dict[int, float] = {}
        self._killed: set[int] = set()
        self._down: set[int] = set()
        self._turn = 0
        self._paused = self._postponed = False
        self.starts = 0

    def is_up(self) -> bool:
        """Whether every part takes requests."""
        return not self._down

    def is_down(self, stage: int) -> bool:
        """Whether a part has ended and is not up again."""
        return stage in self._down

    def strike(self, phase: str) -> Strike | None:
        """Strike if it is due; return the strike."""
        now = time.monotonic()
        if not self._specs or self._paused or phase not in _LOADED or now < self._due or self._down:
            return None
        self._due, self._postponed = now + self._period_s, False
        spec = self._specs[
            self._turn % len(self._specs)
        ]  # each in turn: every one strikes in a short soak too
        self._turn += 1
        stage = self._dice.choice(list(self._system.parts))
        pid = self._system.signal(stage, spec.signal)
        if not pid:
            return None
        if spec.signal == signal.SIGSTOP:
            self._stopped[stage] = now + STOP_S
            return Strike(nemesis=spec.name, key="", harm=Harm.NONE)  # it goes on well before any deadline
        self._killed.add(pid)
        return Strike(nemesis=spec.name, key="", harm=spec.harm, leaves=spec.leaves)

    def tick(self) -> None:
        """Continue what was stopped long enough."""
        now = time.monotonic()
        for stage, end in list(self._stopped.items()):
            if now >= end:
                self._continue(stage)

    def died(self, death: Death) -> bool:
        """Note a death; tell whether a nemesis caused it."""
        self._down.add(death.stage)
        self._stopped.pop(death.stage, None)
        return death.pid in self._killed

    def restart(self, stage: int) -> None:
        """Bring a part up again."""
        self._system.restart(stage)

    def up(self, stage: int) -> None:
        """Note that a part takes requests again."""
        self.starts += 1
        self._down.discard(stage)

    def pause(self) -> None:
        """Let everything run, and strike nothing, until `resume`."""
        self._paused = True
        self.release()

    def resume(self) -> None:
        """Strike again, a little later, so that it meets requests; only once for each strike.

        Between frequent quiescent points the load may last less than the delay: no strike would ever come.
        """
        self._paused = False
        if not self._postponed:
            self._postponed = True
            self._due = max(self._due, time.monotonic() + min(_AFTER_REST_S, self._period_s / 2))

    def release(self) -> None:
        """Continue every stopped process."""
        for stage in list(self._stopped):
            self._continue(stage)

    def _continue(self, stage: int) -> None:
        self._stopped.pop(stage, None)
        self._system.signal(stage, signal.SIGCONT)
