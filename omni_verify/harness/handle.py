"""A request on a stage, with its entries in the ledger."""

from __future__ import annotations

from typing import Any

import msgspec

from omni_verify.checks.observation import Delivered, Sent

__all__ = ["Handle"]


class Handle(msgspec.Struct, kw_only=True):
    """One request on one stage.

    Attributes:
        label: external id without the run's prefix.
        external, internal: the ids that the target sees.
        request: the target's request object.
        sent, got: the ledger entries.
        over: the stage's scheduler has forgotten it.
    """

    label: str
    external: str
    internal: str
    request: Any
    sent: Sent
    got: Delivered
    over: bool = False
