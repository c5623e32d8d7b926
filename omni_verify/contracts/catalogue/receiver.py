"""Receiver half of the transfer adapter, and the scheduler's queues."""

from __future__ import annotations

from omni_verify.contracts.entry import Invariant, Scope

__all__ = ["INVARIANTS"]

INVARIANTS = (
    Invariant(
        "I38",
        "A result is committed only while its own registration is the current one, tested again "
        "after the get; nothing of a cleaned-up request reappears.",
        Scope.RECEIVER,
        "article section 5.6; vllm-omni#8082",
    ),
    Invariant(
        "I38b",
        "The cleanup of an earlier owner does not touch a newer registration of the same id.",
        Scope.RECEIVER,
        "article section 5.6",
    ),
    Invariant(
        "I38c",
        "A new generation never reads an object of an old one, and loses none of its own to a stale entry.",
        Scope.RECEIVER,
        "article section 5.6",
    ),
    Invariant(
        "I39",
        "After cleanup no container of the adapter holds the request; sizes do not grow with the "
        "number of finished requests.",
        Scope.RECEIVER,
        "article section 5.6; vllm-omni#4349, #8082",
    ),
    Invariant(
        "I43",
        "One commit is published as ready once, and cleared iff the request was scheduled in that tick.",
        Scope.SCHEDULER_QUEUES,
        "article section 3.7",
    ),
    Invariant(
        "I44",
        "Restoring parked requests keeps their order, restores each live one once, marks none "
        "ready, skips dead ids, and happens also when scheduling raised.",
        Scope.SCHEDULER_QUEUES,
        "vllm-omni#1691, #3736",
    ),
    Invariant(
        "I44b",
        "No container that the scheduler thread uses is changed by another thread without a lock.",
        Scope.SCHEDULER_QUEUES,
        "vllm-omni#2102",
    ),
    Invariant(
        "I45",
        "A request freed behind the adapter's back is gone from the parking queues and the "
        "adapter's state within one tick.",
        Scope.SCHEDULER_QUEUES,
        "vllm-omni#3736, #3774",
    ),
    Invariant(
        "I46",
        "A request that gets no chunk for the stall time ends with an error; progress restarts the "
        "clock, and the clock exists for as long as the request waits.",
        Scope.SCHEDULER_QUEUES,
        "vllm-omni#3833",
    ),
)
