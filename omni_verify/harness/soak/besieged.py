"""Nemeses in the process of a soak's stage, and how its save thread is known to be at rest."""

from __future__ import annotations

import random
import threading
from typing import Any

import msgspec

from omni_verify.engine.instrument import Patcher
from omni_verify.faults.nemeses import Roaming, Strike, choose
from omni_verify.harness.soak.messages import StageOptions
from omni_verify.harness.stage import Stage
from omni_verify.targets import points
from omni_verify.targets.protocol import Target

__all__ = ["VIRTUAL", "Siege"]

VIRTUAL = frozenset({"clock-jumps", "put-stalls", "hint-lost", "hint-delayed"})
"""Nemeses that strike at the virtual clock of exploration; a soak runs on the machine's."""
_WITHOUT_END = 10**9
_HIT, _MISS = 1, 0


class _Rest:
    """The patcher's runtime: counts how often the save thread went idle, and keeps nothing else."""

    def __init__(self) -> None:
        self.idle = 0

    def reach(self, point: str, key: str = "", **detail: object) -> None:
        """Count."""
        if point == "idle.save":
            self.idle += 1


class Siege:
    """Patches one stage: its idle moments always, the points of its nemeses where there are some.

    Args:
        target: loaded.
        stage: built, with its processor set.
        options: names and rate of the nemeses, and the bytes of a seeded leak.
    """

    def __init__(self, target: Target, stage: Stage, options: StageOptions) -> None:
        self._adapter, self._rest = stage.adapter, _Rest()
        self._leak, self._leaked = options.leak, []  # type: int, list[bytes]
        self._condition: Any = getattr(stage.adapter, "_save_cond", None) or threading.Condition()
        specs = [s for s in choose(options.nemeses, target.capabilities) if s.name not in VIRTUAL]
        specs = [msgspec.structs.replace(s, strikes=_WITHOUT_END) for s in specs]
        dice = random.Random(f"{options.seed}/{options.stage}")
        self._roaming = Roaming(
            specs,
            lambda n, what: _HIT if dice.random() < options.rate else _MISS,
            self._rest.reach,
            prefix=options.prefix,
            strikes=_WITHOUT_END,
        )
        patcher = Patcher(self._rest, self._roaming)  # type: ignore[arg-type]
        needed = {s.point for s in specs} | {s.during for s in specs if s.during} | {"idle.save"}
        sites = [
            *points.adapter_points(target, stage.adapter),
            *points.connector_points(target, stage.connector),
        ]
        if specs:
            sites += points.module_points(target)
        points.install(patcher, [s for s in sites if s.point in needed])
        self._roaming.attach(stage.connector, patcher.replace)

    def mark(self) -> int:
        """Return a mark of this moment for `drained`; call it after what is to be drained was queued."""
        # Under the lock the save thread either waits, then it was notified, or works: in neither case can the
        # idle moment that follows have looked at an older queue.
        with self._condition:
            return self._rest.idle

    def drained(self, mark: int) -> bool:
        """Tell whether everything that was queued before a mark has been done."""
        return (
            self._rest.idle > mark and not self._adapter._pending_save_reqs
        ) or not self._adapter.save_thread.is_alive()

    def rounds_since(self, mark: int) -> int:
        """How often the save thread went idle since a mark."""
        return self._rest.idle - mark

    def take_strikes(self) -> list[Strike]:
        """Take the strikes since the last call."""
        struck = self._roaming.struck
        taken = struck[:]
        del struck[: len(taken)]  # in place: another thread may append meanwhile
        return taken

    def leak(self) -> None:
        """Retain what the seeded leak retains for one abort; nothing without one."""
        if self._leak:
            self._leaked.append(bytes(bytearray(b"\x01") * self._leak))
