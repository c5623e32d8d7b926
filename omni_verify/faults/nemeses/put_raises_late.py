"""The put raises after it has stored the object."""

from typing import Any

from omni_verify.faults.nemeses.spec import Blow, NemesisSpec
from omni_verify.faults.nemesis import Injected


def _strike(blow: Blow) -> Any:
    raise Injected("injected: the put failed after it had stored the object")


NEMESIS = NemesisSpec(
    name="put-raises-late",
    story="connector.put stores the object and raises",
    source="article section 5.3; measured on 0.26.0 to 0.30.0",
    point="put",
    after=True,
    strike=_strike,
)
