"""The controlled scheduler against the installable peers, on the same programs, in one run.

    python benchmarks/engine.py [--only rates|bugs|replay|release] [--json PATH] [--python PATH ...]

Without options everything is measured and printed against its target, and the exit status is 1 when one is
missed. Run it with a Python that has omni-verify's dependencies and torch (for the released code). The peers
need Python 3.12 or later: they are looked for in this interpreter, in those of ``--python`` and of PATH, and
else installed once into a virtual environment in the user's cache folder. Everything that is compared runs
on the interpreter of the peers.

Times are CPU seconds of the measuring process, which a busy machine disturbs least. Every measurement has a
process of its own, because a tracing peer slows down everything that runs after it; rounds are interleaved
over all engines. What counts are the ratios.

*Time to bug* is the time of one call of each tool's ``explore``: from a loaded program to a result that
names the failure and holds the schedule that replays it. Each tool first searches another program for a
moment, then the seeds follow each other in one process and the median is taken, so what a process does once
is in nobody's time: for us that is compiling the access points of a module when it is put under control,
which is printed. Nobody runs the failure again: frontrun's reproduction runs, our minimising and our traced
confirmation are off.
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
import time
from collections.abc import Callable
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import engine_bugs  # noqa: E402
import engine_pythons  # noqa: E402
import engine_rates  # noqa: E402

PARTS = ("rates", "bugs", "replay", "release")
RATE_PROGRAMS = ("controls:counter3", "controls:pipe")
RATE_TARGETS = [
    ("greenlets, access points / interleave-test line", 40, "ours greenlet access", "interleave-test line"),
    (
        "greenlets, access points / interleave-test opcode",
        70,
        "ours greenlet access",
        "interleave-test opcode",
    ),
    ("greenlets, access points / frontrun random", 60, "ours greenlet access", "frontrun random"),
    ("greenlets, access points / frontrun DPOR", 60, "ours greenlet access", "frontrun dpor"),
    ("OS threads, access points / interleave-test line", 12, "ours thread access", "interleave-test line"),
    ("controlled / native threads", 2, "ours greenlet access", "native threads"),
]
PEERS = (("interleave-test", 40), ("frontrun", 150))
BROKEN_RELEASES, SOUND_RELEASE = ("0.26.0", "0.28.0"), "0.30.0"
# CPU seconds for one search of one bug.
BUG_SECONDS = 2.5


class Table:
    """The target table: a row is met or missed; one that could not be measured is missed."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, str, bool]] = []

    def add(self, what: str, target: str, measured: str, met: bool) -> None:  # noqa: FBT001 - a cell
        self.rows.append((what, target, measured, met))

    def show(self) -> None:
        print(f"\n{'':4} {'what':58} {'target':>26} {'measured':>34}")
        for what, target, measured, met in self.rows:
            print(f"{'PASS' if met else 'MISS'} {what:58} {target:>26} {measured:>34}")

    @property
    def missed(self) -> int:
        return sum(not met for *_, met in self.rows)


class Job:
    """Runs a function of this file in a process of its own, under a given interpreter."""

    def __init__(self, python: str) -> None:
        self.python = python

    def __call__(self, job: str, *arguments: object) -> Any:
        # frontrun works only below its own command.
        wrapped = "frontrun" in json.dumps(arguments)
        wrapper = [str(pathlib.Path(self.python).parent / "frontrun")] if wrapped else []
        command = [*wrapper, self.python, __file__, "--job", job, json.dumps(arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1][:160])
        return json.loads(done.stdout.strip().splitlines()[-1])


def _attempts(*arguments: Any) -> dict[str, list[dict[str, Any]]]:
    tried = engine_bugs.attempts(*arguments)
    return {name: [dataclasses.asdict(one) for one in tries] for name, tries in tried.items()}


def _replayed(path: str) -> int:
    return engine_bugs.replayed(json.loads(pathlib.Path(path).read_text()))


def _orphan(*arguments: Any) -> dict[str, Any]:
    import engine_release

    return engine_release.orphan(*arguments)


JOBS: dict[str, Callable[..., Any]] = {
    "engines": lambda: list(engine_rates.engines()),
    "searchers": lambda: list(engine_bugs.searchers()),
    "rate": engine_rates.rate,
    "share": engine_rates.point_share,
    "attempts": _attempts,
    "alarms": engine_bugs.alarms,
    "failures": engine_bugs.failures,
    "replayed": _replayed,
    "shrunk": engine_bugs.shrunk,
    "orphan": _orphan,
}


# -- measurements ------------------------------------------------------------------------------------


def measure_rates(job: Job, rounds: int, seconds: float, table: Table) -> dict[str, dict[str, float]]:
    """Schedules per CPU second, and the ratios over both programs."""
    report: dict[str, dict[str, float]] = {}
    engines = job("engines")
    for program in RATE_PROGRAMS:
        samples: dict[str, list[float]] = {}
        left_out: dict[str, str] = {}
        for _ in range(rounds):
            for name in engines:
                if name.startswith("frontrun") and program not in engine_bugs.FORMS:
                    continue
                try:
                    samples.setdefault(name, []).append(job("rate", name, program, seconds))
                except RuntimeError as error:
                    left_out[name] = str(error)
        report[program] = {name: statistics.median(values) for name, values in samples.items() if values}
        print(f"\n{program}: schedules per CPU second, median of {rounds} rounds")
        for name, value in sorted(report[program].items(), key=lambda item: -item[1]):
            print(f"  {name:28} {value:10.0f}")
        for name, reason in left_out.items():
            print(f"  {name:28} failed: {reason}", flush=True)
    for what, target, one, other in RATE_TARGETS:
        ratios = [rates[one] / rates[other] for rates in report.values() if other in rates and one in rates]
        shown = ", ".join(f"{ratio:.1f}x" for ratio in ratios) or "not measured"
        table.add(what, f">= {target}x", shown, min(ratios, default=0.0) >= target)
    share = job("share")
    table.add("points/s as a share of the bare greenlet limit", ">= 35 %", f"{share:.0%}", share >= 0.35)
    return report


def measure_bugs(job: Job, seeds: int, peer_seeds: int, table: Table) -> dict[str, Any]:
    """Executions and time to the first bug, and the share found, in equal CPU time."""
    names = job("searchers")
    mine = [name for name in names if name.startswith("ours")]
    coarse = [name for name in mine if name.endswith("/sync")]
    fine = [name for name in mine if name not in coarse]
    report: dict[str, Any] = {name: {} for name in names}
    print(f"\nfound / searches @ median executions, ms; at most {BUG_SECONDS} CPU seconds a search")
    for bug in engine_bugs.BUGS:
        for group in (fine, coarse, *([name] for name in names if name not in mine)):
            count = seeds if group[0] in mine else peer_seeds
            try:
                for name, tries in job("attempts", group, bug, count, BUG_SECONDS).items():
                    report[name][bug] = tries
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                print(f"  {bug}: {group[0]}: {str(error)[:100]}")
        print(f"  {bug:28} " + "; ".join(_cell(name, report[name].get(bug)) for name in names), flush=True)
    whole = report["ours portfolio"]
    control = statistics.median(1000 * tries[0]["control"] for tries in whole.values())
    print(f"  putting a module under control, once for all its searches: {control:.1f} ms (median)")
    sure = sum(all(t["found"] for t in tries) for tries in whole.values())
    held = sum(any(t["holds"] for t in tries) for tries in whole.values())
    false = job("alarms", 1000)
    table.add(
        f"bugs found in all {seeds} seeds, portfolio, 3,000 schedules",
        "16/16, 0 alarms, 0 holds",
        f"{sure}/{len(whole)}, {false} alarms, {held} holds",
        sure == len(engine_bugs.BUGS) and not held and not false,
    )
    for peer, target in PEERS:
        _compare(report, peer, target, table)
    return report


def _cell(name: str, tries: list[dict[str, Any]] | None) -> str:
    if tries is None:
        return f"{name} failed"
    hits = [t for t in tries if t["found"]]
    if not hits:
        return f"{name} {'holds' if tries[0]['holds'] else '-'}"
    at, ms = (statistics.median(t[key] for t in hits) for key in ("schedules", "seconds"))
    return f"{name} {len(hits)}/{len(tries)} @{at:g} {1000 * ms:.2f}"


def _compare(report: dict[str, Any], peer: str, target: int, table: Table) -> None:
    """Time to bug of each tool's best mode for each bug, over the bugs that the peer finds in every seed."""
    what = f"time to bug, {peer} / ours"
    ratios, ours, theirs = [], 0, 0
    for bug in engine_bugs.BUGS:
        mine, other = _best(report, "ours", bug), _best(report, peer, bug)
        ours, theirs = ours + (mine is not None), theirs + (other is not None)
        if mine is not None and other is not None:
            ratios.append(other / mine)
    ratio = _mean(ratios)
    table.add(f"{what} ({len(ratios)} bugs)", f">= {target}x", f"{ratio:.0f}x", ratio >= target)
    print(f"  found in every seed within {BUG_SECONDS} CPU s, best mode: ours {ours}/16, {peer} {theirs}/16")
    for name, tries in report.items():
        if name.startswith(peer):
            every = [_time_to_bug(tries[bug]) / _time_to_bug(report["ours portfolio"][bug]) for bug in tries]
            print(f"  {name} / ours portfolio, all bugs (in vain = the budget): {_mean(every):.0f}x")


def _mean(ratios: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, ratios))) if ratios else 0.0


def _best(report: dict[str, Any], tool: str, bug: str) -> float | None:
    """Median CPU seconds of the fastest mode that finds the bug with every seed; None when none does."""
    tries = [modes[bug] for name, modes in report.items() if name.startswith(tool) and bug in modes]
    sure = [_time_to_bug(t) for t in tries if all(one["found"] for one in t)]
    return min(sure, default=None)


def _time_to_bug(tries: list[dict[str, Any]]) -> float:
    """Median CPU seconds; a search in vain counts as the whole budget, which favours the one that failed."""
    return statistics.median(t["seconds"] if t["found"] else max(BUG_SECONDS, t["seconds"]) for t in tries)


def measure_replay(job: Job, others: list[str], most: int, table: Table) -> dict[str, Any]:
    """Replay fidelity here and on other interpreters, and the cost of shrinking."""
    recorded = job("failures", most)
    total, counts = len(recorded), {}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(recorded, file)
        file.flush()
        for python in (job.python, *others):
            try:
                counts[python] = Job(python)("replayed", file.name)
            except RuntimeError as error:
                print(f"{python}: {error}")
                counts[python] = 0
    table.add(
        f"replay, both carriers, {len(counts)} interpreters",
        "100 % of >= 1,000",
        ", ".join(f"{count}/{total}" for count in counts.values()),
        total >= 1000 and len(counts) > 1 and all(count == total for count in counts.values()),
    )
    small = job("shrunk", 5)
    table.add(
        "shrink: median preemptions, reruns, ms",
        "<= 2, <= 30, <= 20",
        ", ".join(f"{small[key]:.1f}" for key in ("preemptions", "reruns", "ms")),
        small["preemptions"] <= 2 and small["reruns"] <= 30 and small["ms"] <= 20,
    )
    return {"replayed": counts, "of": total, "shrink": small}


def measure_releases(job: Job | None, seeds: int, budget: int, table: Table) -> dict[str, Any]:
    """The orphan of an abort in the releases that have it, and its absence from one that does not."""
    report: dict[str, Any] = {}
    for version in (*BROKEN_RELEASES, SOUND_RELEASE):
        sound = version == SOUND_RELEASE
        target = f"none in {budget:,} schedules" if sound else "<= 10 schedules, every seed"
        try:
            if job is None:
                raise RuntimeError("no interpreter with torch")
            got = report[version] = job("orphan", f"vllm-omni=={version}", 1 if sound else seeds, budget)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            table.add(f"abort orphan, released {version}", target, f"not measured: {str(error)[:60]}", False)
            continue
        found = got["found"]
        clean = not got["uncontrolled"]
        shown = "none" if not any(found) else ", ".join(map(str, found))
        met = not any(found) and got["schedules"] == budget if sound else 0 < min(found) <= max(found) <= 10
        table.add(f"abort orphan, released {version}", target, shown, met and clean)
        print(
            f"  {version}: {got['schedules']} schedules, {got['rate']:.0f} a CPU second", *got["uncontrolled"]
        )
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="per engine, program and round")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--peer-seeds", type=int, default=5)
    parser.add_argument("--failures", type=int, default=120, help="recorded failures a program, for replay")
    parser.add_argument("--schedules", type=int, default=10_000, help=f"of release {SOUND_RELEASE}")
    parser.add_argument("--python", action="append", default=[], help="one more interpreter to choose from")
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--job", nargs=2, metavar=("JOB", "ARGUMENTS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        print(json.dumps(JOBS[options.job[0]](*json.loads(options.job[1]))))
        return 0
    started, parts = time.monotonic(), options.only or PARTS
    table, report = Table(), {}
    peers, reason = engine_pythons.with_peers(options.python)
    job = Job(peers or sys.executable)
    other = engine_pythons.other_minor(job.python, options.python)
    torch = engine_pythons.with_modules(("torch", "greenlet", "msgspec"), options.python)
    print(f"compared on {job.python}{f' without peers: {reason}' if reason else ''}")
    print(f"replayed on {other or 'no other minor version'}; releases on {torch or 'nothing: no torch'}")
    if "rates" in parts:
        report["rates"] = measure_rates(job, options.rounds, options.seconds, table)
    if "bugs" in parts:
        report["bugs"] = measure_bugs(job, options.seeds, options.peer_seeds, table)
    if "replay" in parts:
        report["replay"] = measure_replay(job, [other] if other else [], options.failures, table)
    if "release" in parts:
        report["release"] = measure_releases(
            Job(torch) if torch else None, options.seeds, options.schedules, table
        )
    table.show()
    print(f"{table.missed} missed; {time.monotonic() - started:.0f} s")
    if options.json:
        report["targets"] = table.rows
        options.json.write_text(json.dumps(report, indent=2))
    return 1 if table.missed else 0


if __name__ == "__main__":
    sys.exit(main())
