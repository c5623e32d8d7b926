"""The name of a lock file is too long for the file system."""

import errno
from typing import Any

from omni_verify.faults.nemeses.spec import Blow, NemesisSpec


def _strike(blow: Blow) -> Any:
    raise OSError(errno.ENAMETOOLONG, "File name too long")


NEMESIS = NemesisSpec(
    name="name-too-long",
    story="a put cannot create its lock file: the name is too long",
    source="vllm-omni#3950",
    point="lock.open",
    during="put",
    strike=_strike,
)
