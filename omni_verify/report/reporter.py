"""Several reports of one run."""

from __future__ import annotations

from collections.abc import Sequence

from omni_verify.campaign.events import Emit, Event

__all__ = ["fan_out"]


def fan_out(consumers: Sequence[Emit]) -> Emit:
    """Build one event consumer from several, called in order."""

    def emit(event: Event) -> None:
        for consumer in consumers:
            consumer(event)

    return emit
