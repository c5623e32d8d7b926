"""The put takes long: a full machine, a slow disk behind the shared memory."""

from typing import Any

from omni_verify.engine.control import clock
from omni_verify.faults.nemeses.spec import PROCEED, Blow, Harm, NemesisSpec


def _strike(blow: Blow) -> Any:
    clock.sleep(0.02)  # virtual seconds; on real threads there is nothing to wait for
    return PROCEED


NEMESIS = NemesisSpec(
    name="put-stalls",
    story="connector.put stands still for a while of the run's clock",
    source="vllm-omni#6089",
    point="put",
    strike=_strike,
    harm=Harm.NONE,
)
