"""Series of a soak, made up: load and control in cycles, noise of known size, leaks of known size."""

import importlib.util
import random
from pathlib import Path

import pytest

from omni_verify.audit.series import Sample, Series

ROOT = Path(__file__).parents[3]


def made_up(
    *,
    per_abort=0.0,
    per_request=0.0,
    retained=0.0,
    without=(),
    trims=True,
    control=True,
    samples=400,
    noise=1_000.0,
    seed=0,
    extra=None,
    restart_at=None,
):
    """A soak of two stages; leaks and retention are in stage 0, bytes per request of the kind.

    `retained` is freed memory that the allocator keeps for each abort until it is trimmed; `extra` gives
    further figures by sample number and counts.
    """
    dice = random.Random(seed)
    rows, completed, aborted, base = [], 0, 0, 0
    for i in range(samples):
        share = i / samples
        phase = "warm-up" if share < 0.05 else "load" if (share * 4) % 1 < 0.75 or not control else "control"
        if share >= 0.95:
            phase = "idle" if share < 0.97 or not trims else "trim"
        if phase in ("warm-up", "load", "control"):
            completed += 40 if phase != "control" else 50
            aborted += 10 if phase != "control" else 0
        if restart_at == i:
            base = per_abort * aborted + per_request * completed
        leaked = per_abort * aborted + per_request * completed - base
        kept = retained * aborted if phase != "trim" else 0
        figures = {"shm.segments": 0.0}
        for part, more in (("stage0", leaked), ("stage1", 0.0)):
            resident = 2e8 + more + (kept if part == "stage0" else 0) + dice.gauss(0, noise)
            figures |= {
                f"{part}.rss": resident // 4096 * 4096,
                f"{part}.uss": (resident - 5e7 + dice.gauss(0, noise)) // 4096 * 4096,
                f"{part}.heap_used": 9e7 + more + dice.gauss(0, noise / 2),
                f"{part}.blocks": 5e5 + more / 64 + dice.gauss(0, noise / 100),
                f"{part}.fds": 12.0,
                f"{part}.containers": 0.0,
                f"{part}.pid": 100.0 + (restart_at is not None and i >= restart_at),
            }
        figures |= extra(i, completed, aborted) if extra else {}
        rows.append(
            Sample(
                seconds=float(i),
                phase=phase,
                started=completed + aborted,
                completed=completed,
                aborted=aborted,
                quiescent=i % 8 == 0 or phase in ("idle", "trim"),
                figures={k: v for k, v in figures.items() if not any(w in k for w in without)},
            )
        )
    return Series(facts={"target": "made up"}, samples=tuple(rows))


@pytest.fixture
def soak():
    """The maker of series."""
    return made_up


@pytest.fixture(scope="session")
def calibration():
    """The benchmark that publishes the rates, as a module."""
    path = ROOT / "benchmarks" / "trend_calibration.py"
    spec = importlib.util.spec_from_file_location("trend_calibration", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
