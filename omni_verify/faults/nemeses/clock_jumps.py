"""The wall clock is set: an hour ahead."""

from typing import Any

from omni_verify.engine.control import clock
from omni_verify.faults.nemeses.spec import Blow, Harm, NemesisSpec

_EPOCH = clock.EPOCH
_HOUR = 3600.0


def _begin() -> None:
    clock.EPOCH = _EPOCH


def _strike(blow: Blow) -> Any:
    clock.EPOCH += _HOUR
    return blow.result


NEMESIS = NemesisSpec(
    name="clock-jumps",
    story="the wall clock jumps an hour ahead between two operations",
    source="vllm-omni#3833",
    point="save",
    after=True,
    begin=_begin,
    strike=_strike,
    harm=Harm.NONE,
)
