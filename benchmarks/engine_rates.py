"""Schedules per second: our engine at every carrier and granularity, the peers, and native threads."""

from __future__ import annotations

import functools
import gc
import importlib.util
import pathlib
import random
import statistics
import sys
import time
from collections.abc import Callable

import greenlet
from engine_frontrun import FORMS

from omni_verify.engine.control import Scheduler, instrument, load_function, state, threads
from omni_verify.engine.strategies import RandomWalk

__all__ = ["engines", "load", "point_share", "rate"]

PROGRAMS = pathlib.Path(__file__).resolve().parent.parent / "tests" / "quality" / "engine" / "programs"
# Executions between two garbage collections, as in a search.
_COLLECT_EVERY = 256


@functools.cache
def load(name: str) -> tuple[Callable[[], None], object]:
    """The program ``FILE:FUNCTION`` of the bug set, and its module."""
    module, _, function = name.partition(":")
    return load_function(f"{PROGRAMS / module}.py:{function}")


def ours(name: str, seconds: float, carrier: str, granularity: str) -> float:
    """Executions a CPU second of a correct program under a random walk."""
    program, module = load(name)
    scheduler = Scheduler(carrier, granularity=granularity)
    strategy = RandomWalk(1)
    gc.disable()
    with instrument([module], granularity):
        count, start = 0, time.process_time()
        while time.process_time() - start < seconds:
            strategy.new_execution()
            run = scheduler.run(program, strategy)
            strategy.executed(run)
            assert run.failure is None
            count += 1
            if not count % _COLLECT_EVERY:
                gc.collect(1)
        spent = time.process_time() - start
    gc.enable()
    scheduler.close()
    return count / spent


def native(name: str, seconds: float) -> float:
    program, _ = load(name)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    count, start = 0, time.process_time()
    while time.process_time() - start < seconds:
        program()
        count += 1
    spent = time.process_time() - start
    sys.setswitchinterval(before)
    return count / spent


def interleave(name: str, seconds: float, granularity: str) -> float:
    """Executions a CPU second of interleave-test."""
    import interleave_test

    program, module = load(name)
    count, start = 0, time.process_time()
    while time.process_time() - start < seconds:
        interleave_test.explore(
            program, iterations=20, seed=count, granularity=granularity, include=[module.__file__]
        )
        count += 20
    return count / (time.process_time() - start)


def frontrun(name: str, seconds: float, strategy: str) -> float:
    """Executions a CPU second of frontrun, which takes the program in its own form."""
    from frontrun.explore import explore as search

    setup, workers, invariant = FORMS[name]()
    count, start = 0, time.process_time()
    while time.process_time() - start < seconds:
        limit = {"max_executions": 20} if strategy == "dpor" else {"max_attempts": 20, "seed": count}
        result = search(setup, workers, invariant, strategy=strategy, **limit)
        if not result.num_explored:
            raise RuntimeError("frontrun reported no executions")
        count += result.num_explored
    return count / (time.process_time() - start)


def engines() -> dict[str, Callable[[str, float], float]]:
    """Everything that can be measured here: name -> executions a CPU second of (program, seconds)."""
    found: dict[str, Callable[[str, float], float]] = {"native threads": native}
    for carrier, granularity in (("greenlet", "access"), ("greenlet", "sync"), ("thread", "access")):
        found[f"ours {carrier} {granularity}"] = lambda n, s, c=carrier, g=granularity: ours(n, s, c, g)
    if importlib.util.find_spec("interleave_test") and sys.version_info >= (3, 12):
        found["interleave-test line"] = lambda n, s: interleave(n, s, "line")
        found["interleave-test opcode"] = lambda n, s: interleave(n, s, "opcode")
    if importlib.util.find_spec("frontrun"):
        found["frontrun random"] = lambda n, s: frontrun(n, s, "random")
        found["frontrun dpor"] = lambda n, s: frontrun(n, s, "dpor")
    return found


def rate(engine: str, program: str, seconds: float) -> float:
    """One measurement, after a short warm-up."""
    measure = engines()[engine]
    measure(program, 0.1)
    return measure(program, seconds)


def point_share(points: int = 60_000) -> float:
    """Points per second of three always-enabled tasks, as a share of bare greenlets with the same pick."""

    def bare() -> float:
        draw, count = random.Random(1).random, [0]
        hub = greenlet.getcurrent()
        workers: list[greenlet.greenlet] = []

        def body(me: int) -> None:
            while count[0] < points:
                count[0] += 1
                i = int(draw() * 3)
                if i != me:
                    workers[i].switch()
            hub.switch()

        workers.extend(greenlet.greenlet(lambda me=me: body(me)) for me in range(3))
        start = time.process_time()
        workers[0].switch()
        return points / (time.process_time() - start)

    def program() -> None:
        def work() -> None:
            t = state.current
            step = t.sched.step
            for _ in range(points // 3):
                step(t)

        for _ in range(3):
            threads.Thread(target=work).start()

    def controlled() -> float:
        scheduler, strategy = Scheduler(max_steps=10 * points), RandomWalk(1)
        strategy.new_execution()
        start = time.process_time()
        run = scheduler.run(program, strategy)
        return run.steps / (time.process_time() - start)

    samples = [(controlled(), bare()) for _ in range(5)]
    return statistics.median(a for a, _ in samples) / statistics.median(b for _, b in samples)
