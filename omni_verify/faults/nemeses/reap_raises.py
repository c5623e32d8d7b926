"""The look for consumed keys fails once."""

from typing import Any

from omni_verify.faults.nemeses.spec import Blow, Harm, NemesisSpec


def _strike(blow: Blow) -> Any:
    raise OSError("injected: cannot look into the directory")


NEMESIS = NemesisSpec(
    name="reap-raises",
    story="connector.reap_consumed raises once",
    source="measured on 0.30.0",
    point="reap",
    strike=_strike,
    harm=Harm.NONE,
    needs="reap",
)
