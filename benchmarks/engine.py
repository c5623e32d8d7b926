"""The controlled scheduler against the installable peers, on the same programs, in one run.

    python benchmarks/engine.py [--rounds 5] [--seconds 1.0] [--bugs] [--json PATH]

Peers that are not installed are left out and named (``pip install interleave-test frontrun``;
interleave-test needs Python 3.12 or later). Rates are executions per CPU second of the measuring process,
which a busy machine disturbs least. Every measurement has a process of its own, because a tracing peer slows
down everything that runs after it; rounds are interleaved over all engines, and what counts are the ratios
of the medians, printed against their targets.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import math
import pathlib
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import greenlet

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from omni_verify.engine.control import Scheduler, instrument, load_function, state, threads  # noqa: E402
from omni_verify.engine.explore import Bounds, explore, replay  # noqa: E402
from omni_verify.engine.strategies import RandomWalk  # noqa: E402

PROGRAMS = ROOT / "tests" / "quality" / "engine" / "programs"
BUGS = [
    *("lost_update:buggy", "lock_order:buggy", "missed_signal:buggy", "check_then_act:buggy", "aba:buggy"),
    *("reorder:buggy_3", "reorder:buggy_5", "reorder:buggy_10", "twostage:buggy_2", "twostage:buggy_10"),
    *("stack:buggy", "bounded_buffer:buggy", "cleanup_vs_put:buggy", "inflight_put_vs_abort:buggy"),
    *("timed_wait:buggy", "adapter_thread:buggy"),
]
# ratio -> (target, numerator, denominator); a row is printed when both were measured
TARGETS = [
    ("greenlets, access / interleave-test line", 40, "ours greenlet access", "interleave-test line"),
    ("greenlets, access / interleave-test opcode", 70, "ours greenlet access", "interleave-test opcode"),
    ("greenlets, access / frontrun random", 60, "ours greenlet access", "frontrun random"),
    ("greenlets, access / frontrun DPOR", 60, "ours greenlet access", "frontrun dpor"),
    ("OS threads, access / interleave-test line", 12, "ours thread access", "interleave-test line"),
    ("controlled / native threads", 2, "ours greenlet access", "native threads"),
]


def load(name: str) -> tuple[Callable[[], None], object]:
    module, _, function = name.partition(":")
    return load_function(f"{PROGRAMS / module}.py:{function}")


# -- engines: each returns executions per second of a correct program over about `seconds` ----------


def ours(name: str, seconds: float, carrier: str, granularity: str) -> float:
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
    """frontrun takes a fixed list of workers, so the program is given in its own form."""
    from frontrun.explore import explore as search

    setup, workers, invariant = WORKERS[name]
    count, start = 0, time.process_time()
    while time.process_time() - start < seconds:
        limit = {"max_executions": 20} if strategy == "dpor" else {"max_attempts": 20, "seed": count}
        result = search(setup, workers, invariant, strategy=strategy, **limit)
        explored = getattr(result, "num_explored", 0)
        if not explored:
            raise RuntimeError("frontrun reported no executions")
        count += explored
    return count / (time.process_time() - start)


class _Total:
    def __init__(self) -> None:
        self.n = 0
        self.lock = threading.Lock()


def _three_increments(total: _Total) -> None:
    for _ in range(3):
        with total.lock:
            total.n += 1


WORKERS = {"controls:counter3": (_Total, [_three_increments] * 3, lambda total: total.n == 9)}


def engines() -> dict[str, Callable[[str, float], float]]:
    found: dict[str, Callable[[str, float], float]] = {
        "ours greenlet access": lambda n, s: ours(n, s, "greenlet", "access"),
        "ours greenlet sync": lambda n, s: ours(n, s, "greenlet", "sync"),
        "ours thread access": lambda n, s: ours(n, s, "thread", "access"),
        "ours thread sync": lambda n, s: ours(n, s, "thread", "sync"),
        "native threads": native,
    }
    if importlib.util.find_spec("interleave_test") and sys.version_info >= (3, 12):
        found["interleave-test line"] = lambda n, s: interleave(n, s, "line")
        found["interleave-test opcode"] = lambda n, s: interleave(n, s, "opcode")
    else:
        print("left out: interleave-test (not installed, or Python below 3.12)")
    if importlib.util.find_spec("frontrun"):
        found["frontrun random"] = lambda n, s: frontrun(n, s, "random")
        found["frontrun dpor"] = lambda n, s: frontrun(n, s, "dpor")
    else:
        print("left out: frontrun (not installed)")
    return found


def _in_a_process(engine: str, program: str, seconds: float) -> float:
    # frontrun works only below its own command.
    wrapper = [str(pathlib.Path(sys.executable).parent / "frontrun")] if engine.startswith("frontrun") else []
    command = [*wrapper, sys.executable, __file__, "--one", engine, program, "--seconds", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return float(done.stdout.split()[-1])


def _verdict(met: object) -> str:
    return "ok" if met else "BELOW"


# -- measurements ------------------------------------------------------------------------------------


def throughput(rounds: int, seconds: float) -> dict[str, dict[str, float]]:
    table: dict[str, dict[str, float]] = {}
    everyone = engines()
    for program in ("controls:counter3", "controls:pipe"):
        samples: dict[str, list[float]] = {}
        left_out: dict[str, str] = {}
        for _ in range(rounds):
            for name in everyone:
                if name in left_out or (name.startswith("frontrun") and program not in WORKERS):
                    continue
                try:
                    rate = _in_a_process(name, program, seconds)
                    samples.setdefault(name, []).append(rate)
                except Exception as error:
                    left_out[name] = f"{type(error).__name__}: {error}"
        table[program] = {name: statistics.median(values) for name, values in samples.items()}
        print(f"\n{program}: schedules per CPU second, median of {rounds} rounds")
        for name, value in sorted(table[program].items(), key=lambda item: -item[1]):
            print(f"  {name:28} {value:10.0f}")
        for name, reason in left_out.items():
            print(f"  {name:28} failed: {reason[:90]}")
        for what, target, one, other in TARGETS:
            if one in table[program] and other in table[program]:
                ratio = table[program][one] / table[program][other]
                print(f"  {what:46} {ratio:7.1f}x  target {target}x  {_verdict(ratio >= target)}")
    return table


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
    share = statistics.median(a for a, _ in samples) / statistics.median(b for _, b in samples)
    print(f"\npoints/s as a share of bare greenlets: {share:.0%}  target 35%  {_verdict(share >= 0.35)}")
    return share


def bugs(seeds: int, budget: int) -> dict[str, object]:
    """Schedules to the first bug, replay fidelity and shrinking of the default portfolio."""
    print(f"\nportfolio, {seeds} seeds, {budget} schedules: found, median, minimised")
    report: dict[str, object] = {}
    replays = fidelity = 0
    for name in BUGS:
        program, module = load(name)
        found, preemptions, reruns = [], [], []
        with instrument([module], "access"):
            for seed in range(seeds):
                result = explore(program, seed=seed, budget=budget, bounds=Bounds(granularity="access"))
                for failure in result.failures:
                    found.append(failure.execution)
                    assert failure.minimised is not None
                    preemptions.append(failure.minimised.preemptions)
                    reruns.append(failure.minimised.reruns)
                    for carrier in ("greenlet", "thread"):
                        replays += 1
                        again = replay(failure.token, program, carrier=carrier)
                        fidelity += again.outcome == "VIOLATED" and again.run.trace == failure.trace
        middle = statistics.median(found) if found else math.nan
        small = statistics.median(preemptions) if preemptions else math.nan
        rerun = statistics.median(reruns or [0])
        report[name] = {"found": len(found), "median": middle, "preemptions": small}
        shown = f"  {name:28} {len(found):2}/{seeds} @{middle:<6} {small} preempt., {rerun} reruns"
        print(shown)
    print(f"  replay fidelity {fidelity}/{replays}  target 100%  {_verdict(fidelity == replays)}")
    report["replay"] = fidelity / max(replays, 1)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="per engine, program and round")
    parser.add_argument("--bugs", action="store_true", help="also measure schedules to the first bug")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--one", nargs=2, metavar=("ENGINE", "PROGRAM"), help="print one rate and exit")
    options = parser.parse_args()
    if options.one:
        engine = engines()[options.one[0]]
        engine(options.one[1], 0.1)  # warm
        print(engine(options.one[1], options.seconds))
        return
    print(f"Python {sys.version.split()[0]}, greenlet {greenlet.__version__}")
    report: dict[str, object] = {
        "throughput": throughput(options.rounds, options.seconds),
        "share": point_share(),
    }
    if options.bugs:
        report["bugs"] = bugs(options.seeds, 3000)
    if options.json:
        options.json.write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
