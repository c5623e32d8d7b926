"""The published rates, in gross: fixed seeds, so that the result is the same everywhere."""

import numpy as np
import pytest

from omni_verify.checks.trend.verdict import judge_trend
from omni_verify.verdict import Verdict


@pytest.mark.parametrize("fit", ["line", "cycles"])
@pytest.mark.parametrize("phi", [0.9, 0.97])
def test_false_alarms_stay_near_the_nominal_rate(calibration, fit, phi):
    """Nominal: 2.5 of 100, measured over 400 series 2.5 at most; 5 of 50 leaves room for chance."""
    make, dice = getattr(calibration, fit), np.random.default_rng(11)
    alarms, found, _ = calibration.rates(lambda rise: make(phi, 600, rise, dice), 50, 60.0)
    assert alarms <= 0.1
    assert found >= 0.5


def test_a_fit_that_ignores_the_correlation_would_fail_the_same_test(calibration, monkeypatch):
    monkeypatch.setattr("omni_verify.checks.trend.fit.correlation_time", lambda points: 0.0)
    monkeypatch.setattr(
        "omni_verify.checks.trend.fit.left_correlation", lambda *args: np.zeros(len(args[0]) - 1)
    )
    dice = np.random.default_rng(11)
    assert sum(calibration.line(0.97, 600, 0.0, dice).lower > 0 for _ in range(100)) > 10


def test_recorded_runs_of_the_reference_hold(calibration):
    for name, series in (
        calibration.recorded("reference-[0-9]*") | calibration.recorded("connector")
    ).items():
        report = judge_trend(series)
        assert report.verdict is Verdict.HELD, (name, report.reason)


@pytest.mark.parametrize(
    ("size", "allowed"),
    [
        (0, {Verdict.HELD, Verdict.INCONCLUSIVE}),
        (64, {Verdict.VIOLATED, Verdict.INCONCLUSIVE}),
        (1_024, {Verdict.VIOLATED, Verdict.INCONCLUSIVE}),
        (46_080, {Verdict.VIOLATED}),
    ],
)
def test_leaks_laid_over_recorded_runs(calibration, size, allowed):
    dice = np.random.default_rng(size)
    for name, series in calibration.recorded("reference-[0-9]*").items():
        found = calibration.outcomes(calibration.windows(series, 2, dice), size)
        assert set(found) <= allowed, (name, found)


def test_a_leak_laid_over_a_whole_run_is_found_from_one_kilobyte_on(calibration):
    for series in calibration.recorded("reference-[0-9]*").values():
        assert calibration.outcomes([series], 1_024) == {Verdict.VIOLATED: 1}


@pytest.mark.parametrize(("run", "size"), [("reference-leak-1024", 1_024), ("reference-leak-46080", 46_080)])
def test_a_real_leak_is_stated_within_a_fifth(calibration, run, size):
    report = judge_trend(calibration.recorded(run)[run])
    found = calibration.judgement(report, "stage0", "per abort")
    assert found.verdict is Verdict.VIOLATED, report.reason
    assert abs(found.estimate - size) < 0.2 * size


def test_a_real_leak_of_64_bytes_does_not_hold(calibration):
    report = judge_trend(calibration.recorded("reference-leak-64")["reference-leak-64"])
    assert calibration.judgement(report, "stage0", "per abort").verdict is not Verdict.HELD
