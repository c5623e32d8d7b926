"""A lock file cannot be removed."""

import errno
from typing import Any

from omni_verify.faults.nemeses.spec import Blow, Harm, NemesisSpec


def _strike(blow: Blow) -> Any:
    raise PermissionError(errno.EACCES, "Permission denied")


NEMESIS = NemesisSpec(
    name="eacces",
    story="a lock file cannot be removed after its object was consumed",
    source="measured on 0.26.0 to 0.30.0",
    point="lock.remove",
    during="get",
    strike=_strike,
    harm=Harm.NONE,
    leaves=True,
)
