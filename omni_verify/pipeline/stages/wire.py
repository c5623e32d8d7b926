"""Messages of the control pipe between the orchestrator's process and a stage process.

Plain pickle on purpose: the pickler of `multiprocessing` would move tensors through shared memory of
its own, which nobody here audits or reclaims.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from omni_verify.pipeline.stages.messages import StageEvent, StageRequest

__all__ = ["AbortCommand", "EventBatch", "ReleaseCommand", "StopCommand", "SubmitCommand", "receive", "send"]


@dataclass(frozen=True, slots=True)
class SubmitCommand:
    """Admit one request."""

    request: StageRequest


@dataclass(frozen=True, slots=True)
class AbortCommand:
    """End requests."""

    request_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReleaseCommand:
    """Release the transport objects of ended requests."""

    request_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StopCommand:
    """Close the stage and end the process."""


@dataclass(frozen=True, slots=True)
class EventBatch:
    """What a stage process reports: events in order, and perhaps new statistics."""

    events: list[StageEvent] = field(default_factory=list)
    statistics: dict[str, float] | None = None


def send(connection: Connection, message: object) -> None:
    """Write one message; raises OSError when the other side is gone."""
    connection.send_bytes(pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL))


def receive(connection: Connection) -> Any:
    """Read one message; raises EOFError or OSError when the other side is gone."""
    return pickle.loads(connection.recv_bytes())
