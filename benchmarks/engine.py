"""The controlled scheduler against the installable peers, on the same programs, in one run.

    python benchmarks/engine.py [--rounds 5] [--seconds 0.5] [--seeds 10] [--peer-seeds 3]
                                [--other-python PATH ...] [--json PATH] [--only rates|bugs|replay]

Peers that are not installed are left out and named (``pip install interleave-test frontrun``;
interleave-test needs Python 3.12 or later). Times are CPU seconds of the measuring process, which a busy
machine disturbs least. Every measurement has a process of its own, because a tracing peer slows down
everything that runs after it; rounds are interleaved over all engines. What counts are the ratios, printed
against their targets at the end.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import greenlet

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import engine_bugs  # noqa: E402
import engine_rates  # noqa: E402

RATE_PROGRAMS = ("controls:counter3", "controls:pipe")
RATE_TARGETS = [
    ("greenlets, access / interleave-test line", 40, "ours greenlet access", "interleave-test line"),
    ("greenlets, access / interleave-test opcode", 70, "ours greenlet access", "interleave-test opcode"),
    ("greenlets, access / frontrun random", 60, "ours greenlet access", "frontrun random"),
    ("greenlets, access / frontrun DPOR", 60, "ours greenlet access", "frontrun dpor"),
    ("OS threads, access / interleave-test line", 12, "ours thread access", "interleave-test line"),
    ("controlled / native threads", 2, "ours greenlet access", "native threads"),
]
# CPU seconds for one search of one bug.
BUG_SECONDS = 2.5


class Table:
    """The target table: a row is met, missed, or was not measured."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, str, bool | None]] = []

    def add(self, what: str, target: str, measured: str, met: bool | None) -> None:  # noqa: FBT001 - a cell
        self.rows.append((what, target, measured, met))

    def show(self) -> None:
        print(f"\n{'what':58} {'target':>26} {'measured':>34}")
        for what, target, measured, met in self.rows:
            verdict = "not measured" if met is None else "ok" if met else "miss"
            print(f"{what:58} {target:>26} {measured:>34}  {verdict}")


def _in_a_process(job: str, *arguments: object) -> Any:
    # frontrun works only below its own command.
    wrapped = any(str(argument).startswith("frontrun") for argument in arguments)
    wrapper = [str(pathlib.Path(sys.executable).parent / "frontrun")] if wrapped else []
    command = [*wrapper, sys.executable, __file__, "--job", job, json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1][:90])
    return json.loads(done.stdout.strip().splitlines()[-1])


def _attempts(*arguments: Any) -> list[dict[str, Any]]:
    return [dataclasses.asdict(attempt) for attempt in engine_bugs.attempts(*arguments)]


def _replayed(path: str) -> int:
    return engine_bugs.replayed(json.loads(pathlib.Path(path).read_text()))


JOBS: dict[str, Callable[..., Any]] = {
    "rate": engine_rates.rate,
    "share": engine_rates.point_share,
    "attempts": _attempts,
    "replayed": _replayed,
}


# -- measurements ------------------------------------------------------------------------------------


def measure_rates(rounds: int, seconds: float, table: Table) -> dict[str, dict[str, float]]:
    """Schedules per CPU second, and the ratios over both programs."""
    report: dict[str, dict[str, float]] = {}
    for program in RATE_PROGRAMS:
        samples: dict[str, list[float]] = {}
        left_out: dict[str, str] = {}
        for _ in range(rounds):
            for name in engine_rates.engines():
                if name.startswith("frontrun") and program not in engine_bugs.FORMS:
                    continue
                try:
                    samples.setdefault(name, []).append(_in_a_process("rate", name, program, seconds))
                except RuntimeError as error:
                    left_out[name] = str(error)
        report[program] = {name: statistics.median(values) for name, values in samples.items() if values}
        print(f"\n{program}: schedules per CPU second, median of {rounds} rounds")
        for name, value in sorted(report[program].items(), key=lambda item: -item[1]):
            print(f"  {name:28} {value:10.0f}")
        for name, reason in left_out.items():
            print(f"  {name:28} failed: {reason}")
    for what, target, one, other in RATE_TARGETS:
        ratios = [rates[one] / rates[other] for rates in report.values() if other in rates and one in rates]
        shown = ", ".join(f"{ratio:.1f}x" for ratio in ratios)
        table.add(what, f">= {target}x", shown, min(ratios) >= target if ratios else None)
    share = _in_a_process("share")
    table.add("points/s as a share of the bare greenlet limit", ">= 35 %", f"{share:.0%}", share >= 0.35)
    return report


def measure_bugs(seeds: int, peer_seeds: int, table: Table) -> dict[str, Any]:
    """Executions and time to the first bug, and the share found, in equal CPU time."""
    names = list(engine_bugs.searchers())
    report: dict[str, Any] = {name: {} for name in names}
    print(f"\nfound / searches @ median executions, at most {BUG_SECONDS} CPU seconds a search")
    for bug in engine_bugs.BUGS:
        cells = []
        for name in names:
            count = seeds if name.startswith("ours") else peer_seeds
            try:
                tries = _in_a_process("attempts", name, bug, count, BUG_SECONDS)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                cells.append(f"{name}: {str(error)[:40]}")
                continue
            report[name][bug] = tries
            hits = [t["schedules"] for t in tries if t["found"]]
            middle = f"@{statistics.median(hits):g}" if hits else "hold" if tries[0]["holds"] else "-"
            cells.append(f"{name} {len(hits)}/{len(tries)} {middle}")
        print(f"  {bug:28} " + "; ".join(cells), flush=True)
    mine = report["ours portfolio"]
    sure = sum(all(t["found"] for t in tries) for tries in mine.values())
    wrong = sum(any(t["holds"] for t in tries) for tries in mine.values())
    false = engine_bugs.alarms(1000)
    whole = sure == len(engine_bugs.BUGS) and not wrong and not false
    table.add(
        f"bugs found in all {seeds} seeds, portfolio, 3,000 schedules",
        "16/16, 0 alarms, 0 holds",
        f"{sure}/{len(mine)}, {false} alarms, {wrong} holds",
        whole,
    )
    for peer, target in (("interleave-test", 40), ("frontrun", 150)):
        _compare(report, peer, target, table)
    return report


def _compare(report: dict[str, Any], peer: str, target: int, table: Table) -> None:
    """Time to bug of each tool's best mode for each bug, over the bugs that the peer finds in every seed."""
    what = f"time to bug, {peer} / ours"
    if not any(name.startswith(peer) for name in report):
        table.add(what, f">= {target}x", "not installed", None)
        return
    ratios, ours, theirs = [], 0, 0
    for bug in engine_bugs.BUGS:
        mine, other = _best(report, "ours", bug), _best(report, peer, bug)
        ours, theirs = ours + (mine is not None), theirs + (other is not None)
        if mine is not None and other is not None:
            ratios.append(other / mine)
    ratio = math.exp(statistics.fmean(map(math.log, ratios)))
    table.add(f"{what} ({len(ratios)} bugs)", f">= {target}x", f"{ratio:.0f}x", ratio >= target)
    print(f"  found in every seed within {BUG_SECONDS} CPU s, best mode: ours {ours}/16, {peer} {theirs}/16")
    for name, tries in report.items():
        if name.startswith(peer):
            whole = [_time_to_bug(tries[bug]) / _time_to_bug(report["ours portfolio"][bug]) for bug in tries]
            every = math.exp(statistics.fmean(map(math.log, whole)))
            print(f"  {name} / ours portfolio, all bugs (in vain = the budget): {every:.0f}x")


def _best(report: dict[str, Any], tool: str, bug: str) -> float | None:
    """Median CPU seconds of the fastest mode that finds the bug with every seed; None when none does."""
    tries = [modes[bug] for name, modes in report.items() if name.startswith(tool) and bug in modes]
    sure = [_time_to_bug(t) for t in tries if all(one["found"] for one in t)]
    return min(sure, default=None)


def _time_to_bug(tries: list[dict[str, Any]]) -> float:
    """Median CPU seconds; a search in vain counts as the whole budget, which favours the one that failed."""
    return statistics.median(t["seconds"] if t["found"] else max(BUG_SECONDS, t["seconds"]) for t in tries)


def measure_replay(table: Table, others: list[str], most: int) -> dict[str, Any]:
    """Replay fidelity here and on other interpreters, and the cost of shrinking."""
    recorded = engine_bugs.failures(most)
    total = len(recorded)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(recorded, file)
        file.flush()
        counts = {sys.executable: _in_a_process("replayed", file.name)}
        for other in others:
            command = [other, __file__, "--job", "replayed", json.dumps([file.name])]
            done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
            counts[other] = int(done.stdout.split()[-1]) if not done.returncode else 0
            if done.returncode:
                print(f"{other}: {done.stderr.strip().splitlines()[-1]}")
    shown = ", ".join(f"{count}/{total}" for count in counts.values())
    table.add(
        f"replay, both carriers, {len(counts)} interpreters",
        "100 % of >= 1,000",
        shown,
        total >= 1000 and len(counts) > 1 and all(count == total for count in counts.values()),
    )
    small = engine_bugs.shrunk(5)
    table.add(
        "shrink: median preemptions, reruns, ms",
        "<= 2, <= 30, <= 20",
        ", ".join(f"{small[key]:.1f}" for key in ("preemptions", "reruns", "ms")),
        small["preemptions"] <= 2 and small["reruns"] <= 30 and small["ms"] <= 20,
    )
    return {"replayed": counts, "of": total, "shrink": small}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="per engine, program and round")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--peer-seeds", type=int, default=3)
    parser.add_argument("--failures", type=int, default=120, help="recorded failures a program, for replay")
    parser.add_argument("--other-python", action="append", default=[], help="replays there as well")
    parser.add_argument("--only", choices=["rates", "bugs", "replay"], action="append")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--job", nargs=2, metavar=("JOB", "ARGUMENTS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        print(json.dumps(JOBS[options.job[0]](*json.loads(options.job[1]))))
        return
    print(f"Python {sys.version.split()[0]}, greenlet {greenlet.__version__}")
    for peer in ("interleave-test", "frontrun"):
        if not any(name.startswith(peer) for name in engine_rates.engines()):
            print(f"left out: {peer} (not installed, or this Python is too old for it)")
    table, report = Table(), {}
    parts = options.only or ["rates", "bugs", "replay"]
    if "rates" in parts:
        report["rates"] = measure_rates(options.rounds, options.seconds, table)
    if "bugs" in parts:
        report["bugs"] = measure_bugs(options.seeds, options.peer_seeds, table)
    if "replay" in parts:
        report["replay"] = measure_replay(table, options.other_python, options.failures)
    table.add(
        "released 0.26/0.28 abort orphan, none on 0.30", "<= 10 schedules", "see `omni-verify explore`", None
    )
    table.show()
    if options.json:
        report["targets"] = table.rows
        options.json.write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
