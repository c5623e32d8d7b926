"""Arrival hints come twice, or for nothing."""

from collections.abc import Callable
from typing import Any

from omni_verify.faults.nemeses.spec import Harm, NemesisSpec


def _attach(connector: Any, chance: Callable[[str], bool], replace: Callable[..., None]) -> None:
    real = getattr(connector, "wait_for_change", None)
    if real is None:
        return

    def wait(generation: int, *, timeout: float) -> bool:
        return chance("") or bool(real(generation, timeout=timeout))

    replace(connector, "wait_for_change", wait)


NEMESIS = NemesisSpec(
    name="hint-twice",
    story="an arrival hint comes again, and nothing new is there",
    source="article section 5.9",
    attach=_attach,
    harm=Harm.NONE,
    strikes=2,
    needs="wakeups",
)
