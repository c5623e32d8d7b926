"""Discrete figures: zero at rest, and no growth from one quiescent point to the next."""

import pytest

from omni_verify.audit.series import Sample, Series
from omni_verify.checks.trend.exact import judge_empty, judge_steady
from omni_verify.checks.trend.settings import TrendSettings
from omni_verify.checks.trend.verdict import judge_trend
from omni_verify.verdict import Verdict

SETTINGS = TrendSettings()


def at_rest(values, name="stage0.fds"):
    return [
        Sample(
            seconds=i, phase="load", completed=10 * i, aborted=2 * i, quiescent=True, figures={name: float(v)}
        )
        for i, v in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([10] * 8, Verdict.HELD),
        ([10, 11, 10, 11, 10, 11, 10, 11], Verdict.HELD),
        ([10, 10, 12, 12, 12, 12, 12, 12], Verdict.HELD),
        ([10, 11, 12, 13, 14, 15, 16, 17], Verdict.VIOLATED),
        ([10, 14, 11, 15, 12, 16, 13, 17], Verdict.VIOLATED),
        ([10, 10, 10, 10, 10, 10, 11, 11], Verdict.INCONCLUSIVE),
        ([10, 11, 12], Verdict.INCONCLUSIVE),
    ],
)
def test_steady(values, verdict):
    assert judge_steady(at_rest(values), "stage0.fds", SETTINGS).verdict is verdict


def test_a_leak_of_segments_is_told_per_abort():
    found = judge_empty(at_rest(range(0, 40, 2), "shm.segments"), "shm.segments", SETTINGS)
    assert found.verdict is Verdict.VIOLATED
    assert found.estimate == 1.0
    assert [f.invariant for f in found.findings] == ["I51"]


def test_what_aborts_leave_and_what_requests_leave_are_told_apart(soak):
    report = judge_trend(soak(extra=lambda i, c, a: {"shm.segments": 3.0 * a + 0.5 * c}))
    found = next(j for j in report.judgements if j.subject == "shm.segments")
    assert abs(found.estimate - 3.0) < 1e-6
    assert "3.00 an abort and 0.50 a request" in found.sentence


def test_one_entry_at_one_point_is_enough():
    found = judge_empty(at_rest([0, 0, 1, 0, 0], "shm.locks"), "shm.locks", SETTINGS)
    assert found.verdict is Verdict.VIOLATED
    assert "1 of 5 quiescent points" in found.sentence


def test_zero_is_believed_only_at_rest():
    busy = [
        s.__class__(seconds=s.seconds, phase="load", figures=s.figures) for s in at_rest([0] * 9, "shm.locks")
    ]
    assert judge_empty(busy, "shm.locks", SETTINGS).verdict is Verdict.INCONCLUSIVE


def test_containers_are_told_as_one_until_one_grows(soak):
    def sizes(i, completed, aborted):
        return {"stage0.size.a": 3.0, "stage0.size.b": 0.0, "stage1.size.marks": float(aborted)}

    report = judge_trend(soak(extra=sizes))
    assert "stage0: 2 containers do not grow" in report.sentences
    assert report.verdict is Verdict.VIOLATED
    assert "stage1.size.marks grows" in report.reason


@pytest.mark.parametrize(
    ("nemeses", "verdict"),
    [
        (["none"], Verdict.VIOLATED),
        (["leak:64"], Verdict.VIOLATED),
        (["put-false"], Verdict.HELD),
        (["all"], Verdict.HELD),
    ],
)
def test_what_a_strike_leaves_for_a_while_is_judged_by_the_run(soak, nemeses, verdict):
    series = soak(extra=lambda i, c, a: {"stage0.containers": float(i == 80)})
    struck = Series(facts={"options": {"nemeses": nemeses}}, samples=series.samples)
    found = next(j for j in judge_trend(struck).judgements if j.subject == "stage0.containers")
    assert found.verdict is verdict, found.sentence


def test_what_a_strike_leaves_for_good_is_residue(soak):
    series = soak(extra=lambda i, c, a: {"stage0.containers": float(i > 80)})
    struck = Series(facts={"options": {"nemeses": ["put-false"]}}, samples=series.samples)
    found = next(j for j in judge_trend(struck).judgements if j.subject == "stage0.containers")
    assert found.verdict is Verdict.VIOLATED
