"""Bugs found in equal CPU time, cost of shrinking, and replay of many failures."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from engine_frontrun import FORMS
from engine_rates import load

from omni_verify.engine import token as tokens
from omni_verify.engine.control import Run
from omni_verify.engine.control.instrument import instrument
from omni_verify.engine.explore import Bounds, explore, program_name, replay
from omni_verify.engine.minimise import minimise
from omni_verify.engine.schedule import Schedule, fingerprint
from omni_verify.engine.strategies import Replay, make_strategy

__all__ = ["BUGS", "CORRECT", "Attempt", "alarms", "attempts", "failures", "replayed", "searchers", "shrunk"]

BUGS = [name for name in FORMS if "buggy" in name]
CORRECT = [*(name.replace("buggy", "fixed") for name in BUGS), "controls:counter3", "controls:pipe"]
ACCESS = Bounds(granularity="access")
# What every tool searches before it is measured, in vain, so that its code is warm.
WARM_PROGRAM, WARM_SECONDS = "controls:counter3", 0.1
# Our own search is bounded by executions as well: the target is "within 3,000".
MAX_SCHEDULES = 3000


@dataclass(frozen=True, slots=True)
class Attempt:
    """One search for one bug: executions and CPU seconds until it was found, or in vain."""

    found: bool
    schedules: int
    seconds: float
    holds: bool = False  # the engine answered that the property holds
    control: float = 0.0  # CPU seconds to put a loaded module under control, once for all its searches


# Modules stay under control until the process ends.
_kept = contextlib.ExitStack()


@functools.cache
def _under_control(name: str, granularity: str) -> tuple[Callable[[], None], float]:
    """A program whose module is under control for the rest of this process, and the CPU seconds that took."""
    program, module = load(name)
    start = time.process_time()
    _kept.enter_context(instrument([module], granularity))
    return program, time.process_time() - start


def _ours(name: str, seed: int, seconds: float, strategy: str, granularity: str = "access") -> Attempt:
    program, control = _under_control(name, granularity)
    bounds = Bounds(granularity=granularity)
    start = time.process_time()
    result = explore(
        program,
        strategy=strategy,
        seed=seed,
        budget=MAX_SCHEDULES,
        bounds=bounds,
        shrink=False,
        explain=False,
        time_s=20 * seconds,
    )
    assert all(found.token for found in result.failures)
    spent = time.process_time() - start
    found = bool(result.failures) and spent <= seconds
    # At granularity "sync" completeness is about lock operations, and no claim about the program.
    holds = result.complete and not result.failures and granularity == "access"
    return Attempt(found, result.schedules, spent, holds, control)


def _interleave(name: str, seed: int, seconds: float, strategy: str, granularity: str) -> Attempt:
    import interleave_test

    program, module = load(name)
    count, step, start = 0, 10, time.process_time()
    while (spent := time.process_time() - start) < seconds:
        result = interleave_test.explore(
            program,
            iterations=step,
            seed=seed * 100_003 + count,
            strategy=strategy,
            granularity=granularity,
            include=[module.__file__],
            raise_on_failure=False,
        )
        count += result.schedules_run
        if result.failure is not None:
            return Attempt(True, count, time.process_time() - start)
    return Attempt(False, count, spent, holds=True)


def _frontrun(name: str, seed: int, seconds: float, strategy: str) -> Attempt:
    from frontrun.explore import explore as search

    setup, workers, invariant = FORMS[name]()
    limit = {"max_attempts": 500, "seed": seed} if strategy == "random" else {}
    start = time.process_time()
    result = search(
        setup,
        workers,
        invariant,
        strategy=strategy,
        total_timeout=1.6 * seconds,  # it counts real time, of which a busy machine grants a part
        timeout_per_run=2.0,
        reproduce_on_failure=0,
        **limit,
    )
    spent = time.process_time() - start
    return Attempt(result.property_holds is False, result.num_explored, spent, result.property_holds is True)


def searchers() -> dict[str, Callable[[str, int, float], Attempt]]:
    """Engines and their configurations: name -> search of (program, seed, CPU seconds)."""
    found: dict[str, Callable[[str, int, float], Attempt]] = {}
    for strategy in ("portfolio", "random", "pct3", "pos", "coarse", "surw"):
        found[f"ours {strategy}"] = lambda n, s, t, a=strategy: _ours(n, s, t, a)
    for strategy in ("portfolio", "random", "pos"):
        found[f"ours {strategy}/sync"] = lambda n, s, t, a=strategy: _ours(n, s, t, a, "sync")
    if importlib.util.find_spec("interleave_test") and sys.version_info >= (3, 12):
        for strategy, granularity in (("random", "line"), ("random", "opcode"), ("pct", "line")):
            found[f"interleave-test {strategy}/{granularity}"] = lambda n, s, t, a=strategy, g=granularity: (
                _interleave(n, s, t, a, g)
            )
    if importlib.util.find_spec("frontrun"):
        found["frontrun random"] = lambda n, s, t: _frontrun(n, s, t, "random")
        found["frontrun dpor"] = lambda n, s, t: _frontrun(n, s, t, "dpor")
    return found


def attempts(names: list[str], bug: str, seeds: int, seconds: float) -> dict[str, list[Attempt]]:
    """Search for one bug with every seed, warm; a searcher that misses it once has not found it and stops."""
    found: dict[str, list[Attempt]] = {}
    for name in names:
        search, tries = searchers()[name], found.setdefault(name, [])
        search(WARM_PROGRAM, 0, WARM_SECONDS)
        # Its DPOR is deterministic; a second search sees what the first one loaded.
        for seed in range(2 if name == "frontrun dpor" else seeds):
            tries.append(search(bug, seed, seconds))
            if not tries[-1].found:
                break
    return found


def alarms(budget: int) -> int:
    """Correct programs on which the portfolio reports anything."""
    count = 0
    for name in CORRECT:
        program, module = load(name)
        with instrument([module], "access"):
            count += bool(explore(program, seed=1, budget=budget, bounds=ACCESS).failures)
    return count


# -- replay and shrinking ----------------------------------------------------------------------------


def _failing(name: str, most: int) -> Iterator[tuple[Run, Any, Callable[[], None]]]:
    """Failing executions of one program, with the scheduler that ran them."""
    program, module = load(name)
    scheduler, strategy = ACCESS.scheduler(), make_strategy("portfolio", 17)
    seen: set[tuple[int, ...]] = set()
    with instrument([module], "access"):
        for _ in range(2 * MAX_SCHEDULES):
            if len(seen) == most or not strategy.new_execution():
                break
            run = scheduler.run(program, strategy)
            strategy.executed(run)
            if run.failure is not None and tuple(run.tape) not in seen:
                seen.add(tuple(run.tape))
                yield run, scheduler, program
    scheduler.close()


def failures(most: int) -> list[list[str]]:
    """Up to ``most`` distinct failing executions a program: [program, token, digest of failure and trace]."""
    found = []
    for name in BUGS:
        for run, scheduler, program in _failing(name, most):
            follow = Replay(run.tape)
            follow.new_execution()
            again = scheduler.run(program, follow, trace=True)
            schedule = Schedule(
                fingerprint(program_name(program)),
                "access",
                ACCESS.early_timers,
                ACCESS.max_steps,
                tuple(run.tape),
                tuple(follow.arity_seen),
                fingerprint(run.failure.identity),
            )
            found.append([name, tokens.encode(schedule), _digest(again)])
    return found


def replayed(recorded: list[list[str]]) -> int:
    """How many of the recorded failures show again, step by step, on greenlets and on OS threads."""
    same = 0
    for name in BUGS:
        program, module = load(name)
        with instrument([module], "access"):
            for _, token, digest in (entry for entry in recorded if entry[0] == name):
                runs = [replay(token, program, carrier=carrier) for carrier in ("greenlet", "thread")]
                same += all(r.outcome == "VIOLATED" and _digest(r.run) == digest for r in runs)
    return same


def _digest(run: Run) -> str:
    identity = run.failure.identity if run.failure is not None else ""
    return hashlib.sha256("\n".join([identity, *map(str, run.trace or [])]).encode()).hexdigest()


def shrunk(most: int) -> dict[str, float]:
    """Median over programs of what shrinking reaches and costs (each the median over its failures)."""
    rows: dict[str, list[float]] = {"preemptions": [], "reruns": [], "ms": []}
    for name in BUGS:
        samples: dict[str, list[float]] = {key: [] for key in rows}
        for run, scheduler, program in _failing(name, most):
            start = time.process_time()
            small = minimise(scheduler, program, run.tape, run.failure.identity)
            samples["ms"].append((time.process_time() - start) * 1000)
            assert small is not None
            samples["preemptions"].append(small.preemptions)
            samples["reruns"].append(small.reruns)
        for key, values in samples.items():
            rows[key].append(statistics.median(values))
    return {key: statistics.median(values) for key, values in rows.items()}
