"""No inode is left for a lock file."""

import errno
from typing import Any

from omni_verify.faults.nemeses.spec import Blow, NemesisSpec


def _strike(blow: Blow) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


NEMESIS = NemesisSpec(
    name="no-inode",
    story="a put cannot create its lock file: no inode is left",
    source="vllm-omni#6033",
    point="lock.open",
    during="put",
    strike=_strike,
)
