"""What a script sees and fills of the shared-memory directory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from omni_verify.audit import shm
from omni_verify.contracts.keys import lock_path

__all__ = ["Field"]


class Field:
    """The run's part of /dev/shm.

    Attributes:
        prefix: put before every external id; empty in a private mount namespace.
    """

    prefix: str

    def lock_path(self, key: str) -> str:
        """Path of the lock file of a transfer key."""
        return lock_path(key)

    @contextlib.contextmanager
    def full_of_files(self) -> Iterator[None]:
        """Use up every free inode of the private /dev/shm, and give them back at the end."""
        made: list[str] = []
        try:
            with contextlib.suppress(OSError):
                for i in range(100_000):
                    path = f"/dev/shm/{self.prefix}filler{i}"
                    os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
                    made.append(path)
            yield
        finally:
            for path in made:
                os.unlink(path)

    def shm(self) -> list[str]:
        """Names of segments and lock files of this run that exist now, without the prefix."""
        return self._names(("segment", "lock"))

    def everything(self) -> list[str]:
        """Names of whatever this run may have made, odd names included; wake directories are left out."""
        return sorted(
            n for n in os.listdir("/dev/shm") if self.prefix in n and not n.startswith("omni_shm_wake_")
        )

    def _names(self, kinds: tuple[str, ...]) -> list[str]:
        entries = shm.scan(self.prefix).entries
        return sorted(e.name.replace(self.prefix, "", 1) for e in entries if e.kind in kinds)
