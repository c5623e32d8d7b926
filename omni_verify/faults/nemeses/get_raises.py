"""The get fails once; the object is still there."""

from typing import Any

from omni_verify.faults.nemeses.spec import Blow, Harm, NemesisSpec


def _strike(blow: Blow) -> Any:
    raise OSError("injected: the get failed")


NEMESIS = NemesisSpec(
    name="get-raises",
    story="connector.get raises before it looks; the next one works",
    source="vllm-omni#4855",
    point="get",
    strike=_strike,
    harm=Harm.NONE,
)
