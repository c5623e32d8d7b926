"""Another program removes a lock file: a cleaner of temporary files."""

import contextlib
import os
from typing import Any

from omni_verify.faults.nemeses.spec import Blow, Harm, NemesisSpec


def _strike(blow: Blow) -> Any:
    with contextlib.suppress(OSError):
        os.unlink(blow.lock)
    return blow.result


NEMESIS = NemesisSpec(
    name="foreign-lock",
    story="a foreign program removes the lock file of an unread object",
    source="vllm-omni#7840",
    point="put",
    after=True,
    strike=_strike,
    harm=Harm.NONE,
)
