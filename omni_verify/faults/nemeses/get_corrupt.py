"""The bytes in shared memory are not those that were put."""

import os
from typing import Any

from omni_verify.faults.nemeses.spec import PROCEED, Blow, NemesisSpec, has_segment

_NO_MESSAGE = b"\xc1"
"""A byte that no MessagePack object begins with."""


def _strike(blow: Blow) -> Any:
    with open(blow.segment, "r+b") as file:
        file.write(_NO_MESSAGE * os.fstat(file.fileno()).st_size)
    return PROCEED


NEMESIS = NemesisSpec(
    name="get-corrupt",
    story="the bytes of an unread object are overwritten before it is read",
    source="article section 5.4; vllm-omni#8082",
    point="get",
    applies=has_segment,
    strike=_strike,
)
