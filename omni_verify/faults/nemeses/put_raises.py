"""The put raises before it stores anything."""

from typing import Any

from omni_verify.faults.nemeses.spec import Blow, NemesisSpec
from omni_verify.faults.nemesis import Injected


def _strike(blow: Blow) -> Any:
    raise Injected("injected: the put failed")


NEMESIS = NemesisSpec(
    name="put-raises",
    story="connector.put raises and nothing is stored",
    source="vllm-omni#6033",
    point="put",
    strike=_strike,
)
