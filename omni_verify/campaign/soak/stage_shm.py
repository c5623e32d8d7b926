"""What the stages of a soak have in shared memory, seen from outside, and what their parent removes there."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection

from omni_verify.audit import shm
from omni_verify.contracts.keys import OWNER_PATTERN, SHM_ROOT, SPARE_PATTERN, wake_directory
from omni_verify.pipeline.stages.dead_fifos import remove_dead_fifos

__all__ = ["StageShm"]


class StageShm:
    """The stages' /dev/shm.

    Args:
        prefix: of every name that the run owns.

    Attributes:
        root: where this process sees it; another one when the stages have a private /dev/shm.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix, self.root = prefix, SHM_ROOT

    def look_inside(self, pid: int) -> None:
        """Look into the private /dev/shm of a process and its children from now on."""
        self.root = f"/proc/{pid}/root{SHM_ROOT}"

    def listing(self) -> shm.Listing:
        """What lies there now; foreign names are those of a private one only."""
        try:
            return shm.scan(self._prefix, self.root)
        except OSError:
            return shm.Listing(prefix=self._prefix)

    def sweep(self, label: str) -> tuple[str, ...]:
        """Remove what lies there of one request, as the parent of a killed stage does; return the names."""
        return shm.sweep(f"{self._prefix}{label}_", self.root)

    def sweep_journals(self, alive: Collection[int]) -> None:
        """Remove crash journals and spares of senders that are not alive.

        Nobody reads at a quiescent point, so nothing needs them.
        """
        listing = self.listing()
        for entry in (*listing.select("owner"), *listing.select("spare")):
            name = os.path.basename(entry.name)
            found = OWNER_PATTERN.fullmatch(name) or SPARE_PATTERN.fullmatch(name)
            if found and int(found["pid"]) not in alive:
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(self.root, entry.name))

    def sweep_fifos(self) -> None:
        """Remove the FIFO of a stage that was killed, as its parent does before it starts another."""
        wake = os.path.basename(wake_directory(os.getuid(), 0, self._prefix))
        remove_dead_fifos(os.path.join(self.root, wake))
