"""The reference connector against vllm-omni's and against the floor, side by side in one run.

    python benchmarks/throughput.py [--rounds 15] [--release vllm-omni==0.30.0] [--json PATH]
                                    [--only connector|latency|parked|sampler|soak ...]

The floor is what no connector can do without: serialise, write a file, read it, remove it, deserialise.
Rounds are interleaved over the columns, and the figure of a column is the median of its rounds, so a busy
machine disturbs all alike; what counts are the ratios of CPU time, printed against their targets. Wall time
is shown beside it. The last column says how far the release is from the floor. ``--only soak`` compares a
soak with and without its sampler; it takes minutes and is not part of the rest. Exit code 1 when a
target is missed.

CPU is that of the processes that put and get plus that of Python's resource tracker, a process that
``multiprocessing.shared_memory`` has told of every segment. A column is charged what the tracker used from
the start of its round until it had read everything; the tracker's part is shown in brackets. The reference
and the floor do not use it: their part is 0.

A first chunk is sent as soon as the receive loop sleeps, and in a second series 5 ms later. That pause is
what is measured, no wait for an order: caches and cores cool down while a machine idles, and every step of a
transfer takes several times as long. How long is up to the machine, so only the first series is judged.
The release gets no hints but looks each millisecond; in the first series it has just looked, its worst case.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time
import uuid
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from throughput_parts import FLOOR, PARKED, Process, tracker_cpu  # noqa: E402

GENERATIONS = 3
"""A process keeps the memory layout that it happened to get; several even that out."""

WARM_UP_S = 0.2
"""Of each size in each generation: what a connector makes once is made then, and its directory settles."""

COUNTS = {"64 int64": 48, "50x16 int64": 48, "1 MiB": 8, "16 MiB": 2}
"""Chunks a round."""

AGAINST_RELEASE, AGAINST_FLOOR = 3.0, 2.0
FIRST_CHUNK_MS, PARKED_SHARE, SAMPLER_SHARE = 0.3, 0.02, 0.02
SAMPLE_INTERVAL_S = 1.0
IDLE_S = 0.005
WARM_UP = 10
"""First chunks that do not count."""
SOAK_OVERHEAD = 0.1


class Cost(NamedTuple):
    """Seconds a chunk: CPU is that of the processes and of the resource tracker, ``tracker`` its part."""

    wall: float
    cpu: float
    tracker: float


class Bench:
    """Starts processes, and collects rows and figures."""

    def __init__(self, release: str) -> None:
        self.release = release
        self.columns = ("reference", release, FLOOR)
        self.run = f"bench{uuid.uuid4().hex[:10]}"
        self.figures: dict[str, Any] = {}
        self.targets: list[tuple[str, str, str, bool]] = []
        self.cores = sorted(os.sched_getaffinity(0))
        self._processes: list[Process] = []
        self._keys = 0

    def start(self, spec: str, scope: str, part: int = 0) -> Process:
        """Start a process of the column; each part (0 sends, 1 receives) has a core of its own."""
        process = Process(spec, f"{self.run}-{scope}", str(ROOT), self.cores[part % len(self.cores)])
        self._processes.append(process)
        return process

    def stop(self) -> None:
        while self._processes:
            self._processes.pop().stop()

    def keys(self, count: int) -> list[str]:
        self._keys += count
        return [f"{self.run}_0_{number}" for number in range(self._keys - count, self._keys)]

    def judge(self, what: str, target: str, measured: str, *, met: bool) -> None:
        self.targets.append((what, target, measured, met))


def measure_connector(bench: Bench, rounds: int) -> None:
    """Put plus get, in one process and across two; each generation of processes takes its share of rounds."""
    for mode in ("one process", "two processes"):
        samples: dict[str, dict[str, list[Cost]]] = {
            size: {spec: [] for spec in bench.columns} for size in COUNTS
        }
        for _ in range(GENERATIONS):
            ends = {}
            for number, spec in enumerate(bench.columns):
                sender = bench.start(spec, f"{mode[:3]}{number}")
                receiver = sender if mode == "one process" else bench.start(spec, f"{mode[:3]}{number}", 1)
                receiver("is_hinted")
                ends[spec] = sender, receiver
            for size, count in COUNTS.items():
                warm = time.monotonic() + WARM_UP_S
                while time.monotonic() < warm:
                    for sender, receiver in ends.values():
                        _round(sender, receiver, size, bench.keys(count))
                for _ in range(-(-rounds // GENERATIONS)):
                    for spec, (sender, receiver) in ends.items():
                        samples[size][spec].append(_round(sender, receiver, size, bench.keys(count)))
            bench.stop()
        for size in COUNTS:
            _show_size(bench, mode, size, samples[size])


def _round(sender: Process, receiver: Process, size: str, keys: list[str]) -> Cost:
    before = tracker_cpu()
    jobs = [(sender, "put get")] if sender is receiver else [(sender, "put"), (receiver, "get")]
    took = [process("transfer", steps, size, keys) for process, steps in jobs]
    tracker = (tracker_cpu() - before) / 1e9 / len(keys)
    return Cost(sum(wall for wall, _ in took), sum(cpu for _, cpu in took) + tracker, tracker)


def _show_size(bench: Bench, mode: str, size: str, samples: dict[str, list[Cost]]) -> None:
    wall, cpu, tracker = (
        {spec: statistics.median([s[i] for s in taken]) * 1e6 for spec, taken in samples.items()}
        for i in range(3)
    )
    mine, theirs, floor = (cpu[spec] for spec in bench.columns)
    bench.figures[f"{mode}, {size}"] = {"cpu_us": cpu, "tracker_us": tracker, "wall_us": wall}
    cells = "  ".join(f"{cpu[s]:8.1f} [{tracker[s]:5.1f}] ({wall[s]:8.1f})" for s in bench.columns)
    print(
        f"{mode:14} {size:12} {cells}  {theirs / mine:6.2f}x {mine / floor:6.2f}x {theirs / floor:6.2f}x",
        flush=True,
    )
    bench.judge(
        f"{mode}, {size}: {bench.release} / reference",
        f">= {AGAINST_RELEASE:g}x",
        f"{theirs / mine:.2f}x",
        met=theirs / mine >= AGAINST_RELEASE,
    )
    bench.judge(
        f"{mode}, {size}: reference / floor",
        f"<= {AGAINST_FLOOR:g}x",
        f"{mine / floor:.2f}x",
        met=mine / floor <= AGAINST_FLOOR,
    )


def measure_latency(bench: Bench, chunks: int) -> None:
    """Time of a first chunk from save_async to the ready mark in another process, its receive loop asleep."""
    for spec in bench.columns[:2]:
        sender, receiver = bench.start(spec, "latency"), bench.start(spec, "latency", 1)
        sender("start_adapter", 0)
        receiver("start_adapter", 1)
        for when, pause in (("back to back", 0.0), (f"after {IDLE_S * 1e3:g} ms idle", IDLE_S)):
            ids = bench.keys(chunks + WARM_UP)
            took = sorted([_first_chunk(sender, receiver, key, pause) for key in ids][WARM_UP:])
            median, p99 = statistics.median(took), took[int(0.99 * (len(took) - 1))]
            what = f"first chunk {when}, {spec}"
            bench.figures[what] = {"median_ms": median, "p99_ms": p99, "max_ms": took[-1]}
            print(f"{what:52} median {median:.3f} ms, p99 {p99:.3f} ms, max {took[-1]:.3f} ms", flush=True)
            if spec == "reference" and not pause:
                bench.judge(
                    f"first chunk {when}, save_async to ready, median",
                    f"< {FIRST_CHUNK_MS} ms",
                    f"{median:.3f} ms",
                    met=median < FIRST_CHUNK_MS,
                )
        bench.stop()


def _first_chunk(sender: Process, receiver: Process, request_id: str, pause: float) -> float:
    """Return the milliseconds from save_async to ready; this process sleeps meanwhile."""
    receiver("receive", request_id)
    time.sleep(pause)
    sender.post("save", request_id)
    ready = receiver.answer()
    took = (ready - sender.answer()) / 1e6
    sender("forget", [request_id])
    receiver("forget", [request_id])
    return took


def measure_parked(bench: Bench, seconds: float) -> None:
    """CPU of a receiver with many registered requests while nothing arrives."""
    for spec in bench.columns[:2]:
        receiver = bench.start(spec, "parked")
        receiver("start_adapter", 1)
        receiver("register", [f"{bench.run}p{number}" for number in range(PARKED)])
        receiver("idle", 1.5)  # the pause between two passes grows to its limit
        share = receiver("idle", seconds)
        bench.stop()
        bench.figures[f"{PARKED} parked, {spec}"] = {"core": share}
        print(f"{PARKED} parked requests, {spec:20} {share:.2%} of a core", flush=True)
        if spec == "reference":
            bench.judge(
                f"{PARKED} parked requests",
                f"< {PARKED_SHARE:.0%} of a core",
                f"{share:.2%}",
                met=share < PARKED_SHARE,
            )


def measure_sampler(bench: Bench, rounds: int) -> None:
    """CPU of one look of the soak's sampler at two stages, and what it does to them while they work."""
    sender, receiver = bench.start("reference", "sampler"), bench.start("reference", "sampler", 1)
    watcher = bench.start(FLOOR, "watcher")
    receiver("is_hinted")
    pids, size = [sender.pid, receiver.pid], "50x16 int64"
    watcher("sample", pids, 2)
    rates: dict[bool, list[float]] = {False: [], True: []}
    looks = []
    for number in range(rounds + 1):
        for sampled in (False, True):
            if sampled:
                looks.append(watcher("sample", pids, 3))
            took = _round(sender, receiver, size, bench.keys(COUNTS[size]))[1]
            if number:
                rates[sampled].append(took)
    bench.stop()
    look, off, on = statistics.median(looks), statistics.median(rates[False]), statistics.median(rates[True])
    bench.figures["sampler"] = {"look_s": look, "chunk_off_us": off * 1e6, "chunk_on_us": on * 1e6}
    print(
        f"sampler: {look * 1e3:.2f} ms CPU a look, {look / SAMPLE_INTERVAL_S:.2%} of a core at one look in "
        f"{SAMPLE_INTERVAL_S:g} s; a chunk costs {off * 1e6:.1f} us without, {on * 1e6:.1f} us after a look"
    )
    bench.judge(
        f"sampler, a look every {SAMPLE_INTERVAL_S:g} s",
        f"< {SAMPLER_SHARE:.0%} of a core",
        f"{look / SAMPLE_INTERVAL_S:.2%}",
        met=look / SAMPLE_INTERVAL_S < SAMPLER_SHARE,
    )


def measure_soak(bench: Bench, rounds: int, requests: int) -> None:
    """CPU of a whole soak, stages included, that samples every second, and of one that does not sample."""
    spent: dict[str, list[float]] = {"off": [], "on": []}
    for _ in range(rounds):
        for sampler, period in (("off", "1d"), ("on", f"{SAMPLE_INTERVAL_S:g}s")):
            command = [sys.executable, "-m", "omni_verify.cli.main", "soak", "--requests", str(requests)]
            command += ["--idle", "1s", "--sample-every", period]
            command += ["--no-store", "--quiet", "--allow-inconclusive"]
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, cwd=ROOT, capture_output=True, timeout=1200, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent[sampler].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    off, on = statistics.median(spent["off"]), statistics.median(spent["on"])
    bench.figures["soak"] = {"requests": requests, "cpu_off_s": off, "cpu_on_s": on}
    print(f"soak of {requests} requests: {off:.2f} s CPU without the sampler, {on:.2f} s with it", flush=True)
    bench.judge(
        "soak, sampler on / off, CPU",
        f"<= {1 + SOAK_OVERHEAD:g}x",
        f"{on / off:.2f}x",
        met=on / off <= 1 + SOAK_OVERHEAD,
    )


def show_targets(bench: Bench) -> bool:
    print(f"\n{'what':58} {'target':>18} {'measured':>12}")
    for what, target, measured, met in bench.targets:
        print(f"{what:58} {target:>18} {measured:>12}  {'PASS' if met else 'MISS'}")
    return all(met for *_, met in bench.targets)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--chunks", type=int, default=200, help="first chunks whose latency is measured")
    parser.add_argument("--seconds", type=float, default=5.0, help="of parked idle")
    parser.add_argument("--release", default="vllm-omni==0.30.0")
    parser.add_argument(
        "--only", choices=["connector", "latency", "parked", "sampler", "soak"], action="append"
    )
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    parts = options.only or ["connector", "latency", "parked", "sampler"]
    bench = Bench(options.release)
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, load {load}, {options.rounds} rounds")
    try:
        if "connector" in parts:
            heads = "  ".join(f"{spec:>27}" for spec in bench.columns)
            print("\nput plus get, CPU us [of it the resource tracker] (wall us)")
            print(f"{'':27} {heads}  rel/ref ref/floor rel/floor")
            measure_connector(bench, options.rounds)
        if "latency" in parts:
            measure_latency(bench, options.chunks)
        if "parked" in parts:
            measure_parked(bench, options.seconds)
        if "sampler" in parts:
            measure_sampler(bench, options.rounds)
        if "soak" in parts:
            measure_soak(bench, 3, 300)
    finally:
        bench.stop()
    met = show_targets(bench)
    if options.json:
        options.json.write_text(json.dumps({"figures": bench.figures, "targets": bench.targets}, indent=2))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
