"""Configuration and orchestrator: which stages exchange chunks, and when a request is over."""

from __future__ import annotations

from omni_verify.contracts.entry import Invariant, Scope

__all__ = ["INVARIANTS"]

INVARIANTS = (
    Invariant(
        "I1",
        "A stage chunks iff its pipeline does and the stage does not say False; True on a stage "
        "never lifts a pipeline's False, and a pipeline of one stage never chunks.",
        Scope.CONFIGURATION,
        "article section 4.2; vllm-omni#2933",
    ),
    Invariant(
        "I2",
        "Scheduler, connector configuration and processor selection see the mode that one and the "
        "same resolver computed, whichever way the configuration was built.",
        Scope.CONFIGURATION,
        "article section 4.2; vllm-omni#7505, #7544",
    ),
    Invariant(
        "I3",
        "async_chunk is a bool for a pipeline, and a bool or None for a stage; anything else is "
        "refused before a processor is chosen, for hand-built objects too.",
        Scope.CONFIGURATION,
        "article section 4.2",
    ),
    Invariant(
        "I4",
        "Both ends of an edge whose producer can chunk resolve to the same mode; a mismatch is an "
        "error at start-up that names both stages.",
        Scope.CONFIGURATION,
        "article section 4.3; vllm-omni#4793",
    ),
    Invariant(
        "I4b",
        "A stage that receives chunks has an upstream stage that declares a chunk producer.",
        Scope.CONFIGURATION,
        "article section 4.3",
    ),
    Invariant(
        "I5",
        "A pipeline chunks as a whole iff any of its resolved stages does.",
        Scope.CONFIGURATION,
        "article section 4.2",
    ),
    Invariant(
        "I6",
        "A request completes iff every requested final stage finished and, with chunks and non- "
        "streaming input, every stage it was submitted to reported its finish.",
        Scope.ORCHESTRATOR,
        "article section 2.5; vllm-omni#5349",
    ),
    Invariant(
        "I7",
        "Exactly one message of a request says finished, and it is the last one.",
        Scope.ORCHESTRATOR,
        "article section 4.4; vllm-omni#7376",
    ),
    Invariant(
        "I8",
        "Prewarm submits a request once to each stage that receives chunks and is not beyond the "
        "final stage, in ascending order, and to no other.",
        Scope.ORCHESTRATOR,
        "article section 4.2; vllm-omni#7505",
    ),
    Invariant(
        "I9",
        "A prewarmed placeholder is never executed: the first step of a chunk-receiving stage uses "
        "input from chunk 0.",
        Scope.ORCHESTRATOR,
        "article section 3.7; vllm-omni#1409",
    ),
    Invariant(
        "I10",
        "A stage that receives no chunks gets its input exactly once, after its upstream finished, "
        "and complete.",
        Scope.ORCHESTRATOR,
        "article section 4.4; vllm-omni#7544",
    ),
    Invariant(
        "I50",
        "Once all stages are done with a request, and not before, its remaining transport objects "
        "are released, by exact key.",
        Scope.ORCHESTRATOR,
        "article section 5.5; vllm-omni#7245",
    ),
)
