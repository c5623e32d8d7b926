"""A put against an abort on released code: orphaned shared memory, in how many schedules (vllm-omni#8082)."""

from __future__ import annotations

import logging
import secrets
import time
from typing import Any

from omni_verify.contracts.invariants import INVARIANTS
from omni_verify.engine.explore import Bounds, explore
from omni_verify.harness.case import own_resource_tracker
from omni_verify.harness.explored import Workload, controlled
from omni_verify.harness.scenario import get, scenario
from omni_verify.harness.script import Script
from omni_verify.targets.registry import resolve

__all__ = ["orphan"]

SCENARIO, ORPHAN = "benchmark/put-against-abort", "I31"
BOUNDS = Bounds(early_timers=0, blocked_s=60)


@scenario(SCENARIO, invariants=(ORPHAN,), source="vllm-omni#8082; article section 5.8")
def put_against_abort(s: Script) -> None:
    """A stage hands a chunk to its save thread and is told to abort the request: whatever the save thread
    does in between, nothing is left."""
    producer = s.producer()
    producer.admit("R")

    def schedule() -> None:
        producer.emit("R", 4)
        producer.abort("R")

    s.actor("scheduler", schedule)
    s.run()


def orphan(spec: str, seeds: int, budget: int) -> dict[str, Any]:
    """Search with every seed; schedules until the orphan was found (0: not within the budget), and the rate.

    Findings of other invariants do not end a search: 0.28.0 also keeps a mark of the aborted request.
    """
    target = resolve(spec)
    target.prepare()
    target.load()
    own_resource_tracker()
    logging.disable(logging.CRITICAL)
    others = frozenset(INVARIANTS) - {ORPHAN}
    workload = Workload(target, get(SCENARIO), prefix=f"ovb{secrets.token_hex(4)}-", ignored=others)
    found, total, uncontrolled = [], 0, set()
    start = time.process_time()
    with controlled(target) as missed:
        for seed in range(seeds):
            result = explore(workload, seed=seed, budget=budget, bounds=BOUNDS, shrink=False, explain=False)
            found.append(result.schedules if result.failures else 0)
            total += result.schedules
            uncontrolled.update(missed, result.certificate.uncontrolled)
    rate = total / (time.process_time() - start)
    return {"found": found, "schedules": total, "rate": rate, "uncontrolled": sorted(uncontrolled)}
