"""What an abort adds beyond a completed request: the contrast between load with aborts and without.

One least-squares fit of a figure on two counts, completed and aborted requests, over both phases: where
load and control alternate, their many short stretches are used together, and what does not change with the
phase (a slow drift, the requests' own cost) is not charged to the aborts. Its errors are raised by what the
correlation of the samples costs a fit on counts that change slowly.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import msgspec
import numpy as np

from omni_verify.checks.trend.correlation import residual_correlation
from omni_verify.checks.trend.fit import blocks_of
from omni_verify.checks.trend.report import Fit
from omni_verify.checks.trend.series import Array, Points
from omni_verify.checks.trend.settings import TrendSettings

__all__ = ["contrast"]

_COLLINEAR = 1e-5
"""Least share of the aborts' variation that completed requests leave unexplained, for telling them apart."""

_BEND = 3
"""Degree of the drift that is fitted beside the two counts."""


def contrast(points: Points, settings: TrendSettings, empty: Fit, least: int) -> tuple[Fit, Fit]:
    """Return what an abort and what a completed request add; `lack` says why if they cannot be told apart.

    Args:
        points: of load and control, counted in aborts.
        settings: thresholds.
        empty: what the fit is of.
        least: fewest samples.
    """
    total = len(points.value)
    other = msgspec.structs.replace(empty, per="completed")
    if total < least:
        why = f"{total} samples, {least} are needed for a contrast"
        return msgspec.structs.replace(empty, lack=why), msgspec.structs.replace(other, lack=why)
    columns, value = _design(points)
    slopes, errors, tau = _regress(columns, value)
    freedom = total / _inflation(tau) - columns.shape[1] - len(points.pieces())
    if not np.isfinite(errors).all() or freedom < settings.minimum_blocks / 4:
        why = "aborts and completed requests cannot be told apart: a control phase without aborts is needed"
        if np.isfinite(errors).all():
            why = f"too few independent samples (correlation time {tau:.0f} samples)"
        return msgspec.structs.replace(empty, lack=why), msgspec.structs.replace(other, lack=why)
    reach = _student(settings.confidence, freedom) * errors
    half = points.count >= (points.count[0] + points.count[-1]) / 2
    late = _regress(*_design(points.at(np.flatnonzero(half))))
    blocks = tuple(blocks_of(points, math.ceil(total / settings.maximum_blocks), settings)[0])
    found = []
    for i, fit in enumerate((empty, other)):
        found.append(
            msgspec.structs.replace(
                fit,
                slope=float(slopes[i]),
                lower=float(slopes[i] - reach[i]),
                upper=float(slopes[i] + reach[i]),
                late=float(late[0][i] if np.isfinite(late[1][i]) else slopes[i]),
                beside=float(slopes[1]) if i == 0 else 0.0,
                blocks=blocks,
                samples=total,
                correlation=tau,
            )
        )
    return found[0], found[1]


def _design(points: Points) -> tuple[Array, Array]:
    """Return the columns of the fit (aborts, completed requests, drift) and the values.

    Each is taken less its mean within its segment. Where load and control alternate often enough, the bend of
    a working set that fills is fitted beside them; with one change of phase it would look like the aborts'.
    """
    progress = points.count + points.completed
    progress = 2 * (progress - progress[0]) / max(progress[-1] - progress[0], 1.0) - 1
    degrees = range(2, _BEND + 1) if _changes(points.count) >= 2 * _BEND else ()
    drift = [np.polynomial.legendre.Legendre.basis(d)(progress) for d in degrees]
    rows = np.stack([points.count, points.completed, *drift, points.value]).astype(np.float64)
    for piece in points.pieces():
        rows[:, piece] -= rows[:, piece].mean(axis=1, keepdims=True)
    return rows[:-1].T, rows[-1]


def _changes(aborted: Array) -> int:
    """How often aborts begin or end."""
    return int(np.count_nonzero(np.diff((np.diff(aborted) > 0).astype(np.int8))))


def _regress(columns: Array, value: Array) -> tuple[Array, Array, float]:
    """Return slopes, standard errors (infinite if they cannot be told apart) and the correlation time."""
    size = columns.shape[1]
    unknown = np.zeros(size), np.full(size, math.inf), 0.0
    scale = np.sqrt(np.einsum("ij,ij->j", columns, columns))
    if len(value) < size + 3 or not scale.all():
        return unknown
    unit = columns / scale
    square = unit.T @ unit
    if np.linalg.det(square[:2, :2]) <= _COLLINEAR or np.linalg.cond(square) > 1 / _COLLINEAR:
        return unknown
    inverse = np.linalg.inv(square)
    slopes = inverse @ unit.T @ value
    rest = value - unit @ slopes
    tau = residual_correlation(rest)
    noise = float(rest @ rest) / (len(rest) - size - 1) * _inflation(tau)
    return slopes / scale, np.sqrt(noise * np.diag(inverse)) / scale, tau


def _inflation(tau: float) -> float:
    """By how much correlation raises the variance of a slow fit: (1 + phi) / (1 - phi) of AR(1)."""
    return 1 / math.tanh(1 / (2 * tau)) if tau > 0 else 1.0


def _student(confidence: float, freedom: float) -> float:
    """Quantile of Student's distribution (Cornish and Fisher's expansion; 1 % off at 4 degrees)."""
    z = NormalDist().inv_cdf(confidence)
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )
