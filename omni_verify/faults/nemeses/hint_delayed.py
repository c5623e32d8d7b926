"""Arrival hints come late."""

from collections.abc import Callable
from typing import Any

from omni_verify.engine.control import clock
from omni_verify.faults.nemeses.spec import Harm, NemesisSpec

_LATE_S = 0.05


def _attach(connector: Any, chance: Callable[[str], bool], replace: Callable[..., None]) -> None:
    real = getattr(connector, "wait_for_change", None)
    if real is None:
        return

    def wait(generation: int, *, timeout: float) -> bool:
        if chance(""):
            clock.sleep(_LATE_S)
        return bool(real(generation, timeout=timeout))

    replace(connector, "wait_for_change", wait)


NEMESIS = NemesisSpec(
    name="hint-delayed",
    story="an arrival hint comes 50 ms of the run's clock late",
    source="article section 5.9",
    attach=_attach,
    harm=Harm.NONE,
    strikes=2,
    needs="wakeups",
)
