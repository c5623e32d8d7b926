"""The object in shared memory is shorter than what was put."""

import os
from typing import Any

from omni_verify.faults.nemeses.spec import PROCEED, Blow, NemesisSpec, has_segment


def _strike(blow: Blow) -> Any:
    size = os.stat(blow.segment).st_size
    os.truncate(blow.segment, max(1, size // 2))
    return PROCEED


NEMESIS = NemesisSpec(
    name="get-truncated",
    story="an unread object loses its second half before it is read",
    source="article section 5.4",
    point="get",
    applies=has_segment,
    strike=_strike,
)
