"""The series of a soak: one sample from inside every stage, from outside, and of the ledger."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from omni_verify.audit.sampler import memory_of, process_figures, shm_figures
from omni_verify.audit.sampler_gpu import gpu_figures
from omni_verify.audit.series import Sample, SeriesWriter, read_series

if TYPE_CHECKING:
    from omni_verify.campaign.soak.load import Soak

__all__ = ["ANSWER_S", "Samples"]

ANSWER_S = 20.0
"""Seconds after which a sample goes without the figures of a part that does not answer."""
_POLL_S = 0.05


class Samples:
    """Takes samples and appends them; a resumed soak goes on behind its last one.

    Args:
        soak: whose system and ledger.
        path: of the series.
        facts: of its first line.
    """

    def __init__(self, soak: Soak, path: Path, facts: Mapping[str, object]) -> None:
        self._soak = soak
        before = read_series(path).samples if path.exists() and path.stat().st_size else ()
        self._writer = SeriesWriter(path, facts)
        self._zero = time.monotonic() - (before[-1].seconds if before else 0.0)
        self._end = 0.0
        self._number = 0
        self._answers: dict[int, dict[str, float]] = {}

    @property
    def seconds(self) -> float:
        """Seconds since the series began, until it was closed."""
        return (self._end or time.monotonic()) - self._zero

    def take(self, *, quiescent: bool, trim: bool = False) -> Sample:
        """Measure everything now and append it."""
        soak = self._soak
        self._ask(quiescent=quiescent, trim=trim)
        values = {f"stage{part}.{n}": v for part, found in self._answers.items() for n, v in found.items()}
        pids = soak.system.pids()
        values |= process_figures(pids) | gpu_figures(pids) | shm_figures(soak.system.shm())
        values |= soak.ledger.recent_figures()
        # The soak's own memory and load: it must not be what grows.
        values["driver.rss"] = memory_of(os.getpid()).get("rss", 0.0)
        values["driver.in_flight"] = float(len(soak.ledger.flying))
        counts = soak.ledger.counts
        sample = Sample(
            seconds=round(self.seconds, 3),
            phase=soak.phase,
            started=counts.started,
            completed=counts.completed,
            aborted=counts.aborted,
            failed=counts.failed,
            quiescent=quiescent,
            figures=values,
        )
        self._writer.append(sample)
        return sample

    def answer(self, number: int, part: int, values: dict[str, float]) -> None:
        """Take what a part measured; an answer to an older question counts for nothing."""
        if number == self._number:
            self._answers[part] = values

    def close(self) -> None:
        """Close the file."""
        self._end = time.monotonic()
        self._writer.close()

    def _ask(self, *, quiescent: bool, trim: bool) -> None:
        soak = self._soak
        self._number += 1
        self._answers = {}
        soak.system.inspect(self._number, collect=quiescent, trim=trim)
        end = time.monotonic() + ANSWER_S
        while len(self._answers) < len(soak.system.parts) and time.monotonic() < end:
            if not soak.system.inspects or not soak.faults.is_up():
                return
            soak.poll(_POLL_S)
