"""The processor fails on one output."""

from typing import Any

from omni_verify.faults.nemeses.spec import Blow, NemesisSpec
from omni_verify.faults.nemesis import Injected


def _strike(blow: Blow) -> Any:
    raise Injected("injected: bad hidden state")


NEMESIS = NemesisSpec(
    name="processor-raises",
    story="the stage's processor raises on one output",
    source="vllm-omni#5739",
    point="proc",
    strike=_strike,
)
