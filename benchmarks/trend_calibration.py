"""How often the trend verdict is wrong: false alarms and detections on synthetic, recorded and seeded series.

``python benchmarks/trend_calibration.py`` prints the tables of docs/reference/trend.md (ten minutes on one
core); ``--quick`` takes fewer repetitions. ``--compact SERIES OUT.jsonl.gz`` prepares a recorded series for
tests/data/trend: only the figures that are judged, as whole numbers.
"""

from __future__ import annotations

import argparse
import gzip
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np

from omni_verify.audit.series import Sample, Series, SeriesWriter, read_series
from omni_verify.checks.trend.contrast import contrast
from omni_verify.checks.trend.fit import fit
from omni_verify.checks.trend.report import Fit, Judgement, TrendReport
from omni_verify.checks.trend.series import Points
from omni_verify.checks.trend.settings import TrendSettings
from omni_verify.checks.trend.verdict import judge_trend
from omni_verify.verdict import Verdict, combine

DATA = Path(__file__).parents[1] / "tests" / "data" / "trend"
LEAKS = (64, 1_024, 46_080)
PAGE = 4_096
SMALL_OBJECT = 512
"""Bytes up to which CPython keeps an object in its own arenas, where no C heap figure shows it."""
KEPT = (
    "rss",
    "uss",
    "heap_used",
    "blocks",
    "pid",
    "fds",
    "threads",
    "containers",
    "pending_keys",
    "segments",
)
SETTINGS = TrendSettings()


# -- synthetic series --------------------------------------------------------------------------------


def ar1(size: int, phi: float, dice: np.random.Generator) -> np.ndarray:
    """Correlated noise of standard deviation 1, in its steady state."""
    value = float(dice.standard_normal())
    noise = dice.standard_normal(size) * np.sqrt(1 - phi**2)
    out = np.empty(size)
    for i in range(size):
        value = phi * value + noise[i]
        out[i] = value
    return out


def line(phi: float, size: int, rise: float, dice: np.random.Generator) -> Fit:
    """Fit correlated noise with a total rise, in standard deviations."""
    count = np.arange(size, dtype=float)
    value = ar1(size, phi, dice) + rise * count / size
    points = Points(
        seconds=count, count=count, completed=count, value=value, segment=np.zeros(size, dtype=np.int64)
    )
    return fit(points, SETTINGS, Fit(figure="x.rss", per="completed", phases=()), SETTINGS.minimum_samples)


def cycles(phi: float, size: int, rise: float, dice: np.random.Generator) -> Fit:
    """Contrast four cycles of load and control in noise; the aborts raise it by so much in total."""
    is_control = (np.arange(size) / size * 4) % 1 >= 0.75
    completed = np.cumsum(np.where(is_control, 10.0, 8.0))
    aborted = np.cumsum(np.where(is_control, 0.0, 2.0))
    points = Points(
        seconds=completed,
        count=aborted,
        completed=completed,
        value=ar1(size, phi, dice) + rise * aborted / aborted[-1],
        segment=np.zeros(size, dtype=np.int64),
    )
    empty = Fit(figure="x.rss", per="aborted", phases=())
    return contrast(points, SETTINGS, empty, SETTINGS.minimum_samples)[0]


def rates(make: Callable[[float], Fit], repeats: int, rise: float) -> tuple[float, float, float]:
    """Shares of flat series called growing, of rising ones found, and of flat ones that carry no line."""
    flat = [make(0.0) for _ in range(repeats)]
    rising = [make(rise) for _ in range(repeats)]
    return (
        sum(_grows(f) for f in flat) / repeats,
        sum(_grows(f) for f in rising) / repeats,
        sum(bool(f.lack) or f.is_rough for f in flat) / repeats,
    )


def _grows(found: Fit) -> bool:
    """The rule of `Growth.grows` with a budget of nothing, on which false alarms are most frequent."""
    return not found.lack and found.lower > 0 and found.late > 0


# -- recorded series ---------------------------------------------------------------------------------


def recorded(pattern: str = "*") -> dict[str, Series]:
    """Read the recorded series, by name."""
    return {p.name.removesuffix(".jsonl.gz"): unpack(p) for p in sorted(DATA.glob(f"{pattern}.jsonl.gz"))}


def unpack(path: Path) -> Series:
    """Read one packed series."""
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(gzip.decompress(path.read_bytes()))
        file.flush()
        return read_series(Path(file.name))


def seed_leak(series: Series, size: int, part: str = "stage0") -> Series:
    """Lay a leak of so many bytes per abort over a recorded series, as an object that CPython would keep."""
    samples = []
    first = next((s.aborted for s in series.samples if s.phase != "warm-up"), 0)
    for sample in series.samples:
        kept = max(0, sample.aborted - first)
        added = {"blocks": kept, "rss": kept * size // PAGE * PAGE, "uss": kept * size // PAGE * PAGE}
        if size > SMALL_OBJECT:
            added["heap_used"] = kept * size
        figures = dict(sample.figures)
        for name, more in added.items():
            if f"{part}.{name}" in figures:
                figures[f"{part}.{name}"] += more
        samples.append(msgspec.structs.replace(sample, figures=figures))
    return Series(facts=series.facts, samples=tuple(samples))


def windows(series: Series, number: int, dice: np.random.Generator) -> list[Series]:
    """Cut stretches of half to all of the load out of a series; warm-up, idle and trim stay as they are."""
    loaded = [i for i, s in enumerate(series.samples) if s.phase in ("load", "control")]
    found = []
    for _ in range(number):
        length = int(len(loaded) * dice.uniform(0.5, 1.0))
        start = int(dice.integers(0, len(loaded) - length + 1))
        kept = set(loaded[start : start + length])
        samples = [s for i, s in enumerate(series.samples) if s.phase not in ("load", "control") or i in kept]
        found.append(Series(facts=series.facts, samples=tuple(samples)))
    return found


def judgement(report: TrendReport, subject: str, question: str) -> Judgement | None:
    """The answer to one question."""
    return next((j for j in report.judgements if (j.subject, j.question) == (subject, question)), None)


def outcomes(series: Sequence[Series], size: int) -> Counter[Verdict]:
    """Verdicts on stage 0 with a leak of so many bytes per abort laid over each series.

    A stretch without a control phase cannot tell whose growth it is: then it is found per request.
    """
    found: Counter[Verdict] = Counter()
    for one in series:
        report = judge_trend(seed_leak(one, size) if size else one)
        found[combine(j.verdict for j in report.judgements if j.subject == "stage0")] += 1
    return found


# -- tables ------------------------------------------------------------------------------------------


def synthetic_table(repeats: int) -> None:
    print(f"\nSynthetic AR(1), {repeats} series a row, budget 0; nominal false alarms 2.5 %\n")
    print("| fit | phi | samples | false alarms | total rise, sigma | found | no line or contrast |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, make, rise in (("line", line, 3.0), ("contrast", cycles, 20.0)):
        for phi in (0.9, 0.97):
            for size in (150, 600, 2_000, 6_000):
                dice = np.random.default_rng([size, int(phi * 100)])
                alarm, power, rough = rates(
                    lambda r, m=make, p=phi, n=size, d=dice: m(p, n, r, d), repeats, rise
                )
                print(f"| {name} | {phi} | {size:,} | {alarm:.1%} | {rise:g} | {power:.0%} | {rough:.0%} |")


def recorded_table(number: int) -> None:
    flat = recorded("reference-[0-9]*") | recorded("connector")
    print(f"\nRecorded reference, {number} stretches of each of {len(flat)} series\n")
    print("| leak laid over it, bytes an abort | violated | inconclusive | held |")
    print("| --- | --- | --- | --- |")
    for size in (0, *LEAKS):
        dice = np.random.default_rng(size)
        total: Counter[Verdict] = Counter()
        for series in flat.values():
            total += outcomes(windows(series, number, dice), size)
        shares = [total[v] / total.total() for v in (Verdict.VIOLATED, Verdict.INCONCLUSIVE, Verdict.HELD)]
        print(f"| {size or 'none'} | " + " | ".join(f"{s:.0%}" for s in shares) + " |")


def leaked_table() -> None:
    print("\nWhole recorded runs\n")
    print("| run | requests | aborts | verdict | stage 0, per abort |")
    print("| --- | --- | --- | --- | --- |")
    for name, series in recorded().items():
        report, last = judge_trend(series), series.samples[-1]
        answer = judgement(report, "stage0", "per abort")
        said = answer.sentence.removeprefix("stage0: ").split(", budget")[0] if answer else ""
        print(f"| {name} | {last.completed:,} | {last.aborted:,} | {report.verdict.value} | {said} |")


def compact(source: Path, target: Path) -> None:
    """Write the judged figures of a series, packed."""
    series = read_series(source)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "series.jsonl"
        with SeriesWriter(path, {"command": series.facts.get("command", "record")}) as writer:
            for sample in series.samples:
                writer.append(_lean(sample))
        target.write_bytes(gzip.compress(path.read_bytes(), mtime=0))


def _lean(sample: Sample) -> Sample:
    figures = {
        name: int(value)
        for name, value in sample.figures.items()
        if name.rsplit(".", 1)[-1] in KEPT and not name.startswith(("driver.", "latency."))
    }
    return msgspec.structs.replace(sample, seconds=round(sample.seconds, 1), figures=figures)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--compact", nargs=2, metavar=("SERIES", "OUT"), type=Path)
    options = parser.parse_args()
    if options.compact:
        compact(*options.compact)
        return
    synthetic_table(60 if options.quick else 400)
    recorded_table(5 if options.quick else 20)
    leaked_table()


if __name__ == "__main__":
    sys.exit(main())
