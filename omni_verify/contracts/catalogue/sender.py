"""Sender half of the transfer adapter: chunk numbers, generations, aborts."""

from __future__ import annotations

from omni_verify.contracts.entry import Invariant, Scope

__all__ = ["INVARIANTS"]

INVARIANTS = (
    Invariant(
        "I28",
        "The successful puts of one generation have the chunk ids 0, 1, 2, ... without gap or "
        "repeat, under the keys of the grammar, in the order they were saved.",
        Scope.SENDER,
        "article section 2.2",
    ),
    Invariant(
        "I29",
        "Finishing or cleaning up a request returns without waiting for a processor, put or get, or "
        "for a lock that is held across one.",
        Scope.SENDER,
        "article section 5.2; vllm-omni#8082",
    ),
    Invariant(
        "I30",
        "For one external id, the old generation's puts come before its cleanup, and that before "
        "the new generation's puts.",
        Scope.SENDER,
        "article section 5.2; vllm-omni#8082",
    ),
    Invariant(
        "I31",
        "A key that may exist lies in the cleanup range: the count is raised before the put starts.",
        Scope.SENDER,
        "article section 5.3; vllm-omni#8082",
    ),
    Invariant(
        "I32",
        "A save for an id whose generation is cancelled is refused and recorded, and nothing of it "
        "enters the old stream.",
        Scope.SENDER,
        "article section 5.2; vllm-omni#6816",
    ),
    Invariant(
        "I33",
        "A terminal that was put with success is not reclaimed when its sender retires.",
        Scope.SENDER,
        "article section 5.5; vllm-omni#8082",
    ),
    Invariant(
        "I34",
        "A queued terminal survives cleanup, and every exit of its task releases the fence that protects it.",
        Scope.SENDER,
        "article section 5.5; vllm-omni#6670",
    ),
    Invariant(
        "I35",
        "The key range of a failed terminal is reclaimed.",
        Scope.SENDER,
        "article section 5.5",
    ),
    Invariant(
        "I36",
        "A failed put reaches the request as an error or is sent again; the wire never has a hole "
        "that a later terminal hides.",
        Scope.SENDER,
        "vllm-omni#4855, #6033",
    ),
    Invariant(
        "I37",
        "Processor, put, get and decoding run with no adapter lock held.",
        Scope.SENDER,
        "article section 5.3",
    ),
    Invariant(
        "I37b",
        "The save and receive threads survive every exception of connector, processor and reap.",
        Scope.SENDER,
        "article section 5.7",
    ),
)
