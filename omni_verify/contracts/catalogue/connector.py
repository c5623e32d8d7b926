"""Connector: one object per key, stored, taken or removed as a whole."""

from __future__ import annotations

from omni_verify.contracts.entry import Invariant, Scope

__all__ = ["INVARIANTS"]

INVARIANTS = (
    Invariant(
        "I18",
        "After a put returned True, a get of that key in any process returns an equal object; "
        "before, it returns None or the whole object, never a part.",
        Scope.CONNECTOR,
        "article section 2.4",
    ),
    Invariant(
        "I19",
        "A get that succeeds consumes: the next one returns None, and segment and lock file are "
        "gone when the object is returned.",
        Scope.CONNECTOR,
        "article section 2.4",
    ),
    Invariant(
        "I20",
        "Reading the bytes is what consumes; bytes that do not decode leave neither segment nor lock file.",
        Scope.CONNECTOR,
        "article section 5.8; vllm-omni#8082",
    ),
    Invariant(
        "I21",
        "cleanup(key) removes exactly that key; siblings that share a prefix or suffix stay readable.",
        Scope.CONNECTOR,
        "article section 5.4; vllm-omni#8082",
    ),
    Invariant(
        "I22",
        "cleanup and close are idempotent and safe on unknown keys, and leave no object of their "
        "own, lock files included.",
        Scope.CONNECTOR,
        "article section 5.8",
    ),
    Invariant(
        "I23",
        "A reap looks at 64 keys at most, at each of n tracked keys within ceil(n/64) calls, never "
        "removes an unread one, and also runs while the sender is idle.",
        Scope.CONNECTOR,
        "article section 5.7; vllm-omni#8082",
    ),
    Invariant(
        "I24",
        "A get never waits: while another process holds the key's lock it returns None at once.",
        Scope.CONNECTOR,
        "article section 2.4",
    ),
    Invariant(
        "I25",
        "Results and residue do not depend on arrival hints: they may be dropped, doubled, late or off.",
        Scope.CONNECTOR,
        "article section 3.6",
    ),
    Invariant(
        "I26",
        "No operation on a key returns, destroys or locks out another write to that key.",
        Scope.CONNECTOR,
        "article section 2.4",
    ),
    Invariant(
        "I27",
        "A put that fails is reported and leaves neither payload nor lock file.",
        Scope.CONNECTOR,
        "article section 5.3; vllm-omni#7636, #7840",
    ),
    Invariant(
        "I27b",
        "A full shared-memory file system makes a put fail; it never kills the process.",
        Scope.CONNECTOR,
        "vllm-omni#6033",
    ),
)
