"""Arrival hints get lost."""

from collections.abc import Callable
from typing import Any

from omni_verify.engine.control import clock
from omni_verify.faults.nemeses.spec import Harm, NemesisSpec


def _attach(connector: Any, chance: Callable[[str], bool], replace: Callable[..., None]) -> None:
    real = getattr(connector, "wait_for_change", None)
    if real is None:
        return

    def wait(generation: int, *, timeout: float) -> bool:
        if not chance(""):
            return bool(real(generation, timeout=timeout))
        clock.sleep(max(0.0, timeout))
        return False

    replace(connector, "wait_for_change", wait)


NEMESIS = NemesisSpec(
    name="hint-lost",
    story="an arrival hint does not wake the receiver, which waits its whole time",
    source="article section 5.9",
    attach=_attach,
    harm=Harm.NONE,
    strikes=2,
    needs="wakeups",
)
