"""Random identifiers, made countable: the n-th of an execution is the same in every replay."""

from __future__ import annotations

import uuid as real_uuid

from omni_verify.engine.control import state

__all__ = ["uuid1", "uuid4"]


def uuid4() -> real_uuid.UUID:
    """A valid version 4 identifier, counted anew in every execution."""
    t = state.current
    if t is None:
        return real_uuid.uuid4()
    counted = t.sched.names["identifiers"] = t.sched.names.get("identifiers", 0) + 1
    return real_uuid.UUID(int=counted, version=4)


def uuid1(node: int | None = None, clock_seq: int | None = None) -> real_uuid.UUID:
    """As `uuid4`: neither the host nor the real time gets into an execution."""
    return real_uuid.uuid1(node, clock_seq) if state.current is None else uuid4()
