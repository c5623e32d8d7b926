"""The file system is full when a segment gets its size or its bytes."""

import errno
from typing import Any

from omni_verify.faults.nemeses.spec import Blow, NemesisSpec


def _strike(blow: Blow) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


NEMESIS = NemesisSpec(
    name="enospc",
    story="a segment cannot be created: no space",
    source="vllm-omni#6033; article section 5.3",
    point="seg.create",
    strike=_strike,
    strikes=2,
)
