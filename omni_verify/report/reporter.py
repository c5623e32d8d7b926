"""What every report is: start, handle events, finish."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from omni_verify.campaign.events import Emit, Event

__all__ = ["Reporter", "fan_out"]


class Reporter(Protocol):
    """Consumer of the events of one run."""

    def handle(self, event: Event) -> None:
        """Take one event."""

    def finish(self) -> None:
        """Write what remains and let go of the terminal; called once, also after an error."""


def fan_out(consumers: Sequence[Emit]) -> Emit:
    """Build one event consumer from several, called in order."""

    def emit(event: Event) -> None:
        for consumer in consumers:
            consumer(event)

    return emit
