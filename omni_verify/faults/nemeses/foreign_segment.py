"""Another program removes an unread segment."""

import contextlib
import os
from typing import Any

from omni_verify.faults.nemeses.spec import Blow, Harm, NemesisSpec


def _strike(blow: Blow) -> Any:
    with contextlib.suppress(OSError):
        os.unlink(blow.segment)
    return blow.result


NEMESIS = NemesisSpec(
    name="foreign-segment",
    story="a foreign program removes an unread segment",
    source="article section 5.10",
    point="put",
    after=True,
    strike=_strike,
    harm=Harm.SILENT,
    leaves=True,
)
