"""The sequential model: what a consumer may see, given what its producer was told."""

import pytest

from omni_verify.checks.observation import Delivered
from omni_verify.faults.nemeses import Harm
from omni_verify.harness.fuzz.model import Stream, judge


def stream(*, frames=3, got=3, finishes=1, boundaries=0, error="", waiting=False, **fields):
    seen = Delivered(
        label="R",
        stage="consumer",
        generation=1,
        frames=[("R", 1, i) for i in range(got)],
        finishes=finishes,
        boundaries=boundaries,
        error=error,
        waiting=waiting,
    )
    fields = {"ended": True, "read_to_end": True, **fields}
    return Stream(label="R", generation=1, frames=frames, got=seen, **fields)


def invariants(made, **how):
    return [b.family[0] for b in judge(made, **how)]


@pytest.mark.parametrize(
    "made",
    [
        stream(),
        stream(got=1, aborted=True, finishes=0),
        stream(got=1, read_to_end=False, finishes=0),
        stream(got=1, finishes=0, ended=False),
        stream(got=1, error="the put failed", finishes=0, harm=Harm.STREAM),
        stream(got=1, finishes=0, waiting=True, harm=Harm.SILENT),
        stream(got=0, finishes=0, waiting=True, harm=Harm.STREAM, expired=True),
        stream(got=0, finishes=0, refused="draining", may_be_refused=True),
        Stream(label="R", generation=1, ended=True),
    ],
)
def test_what_the_contract_allows(made):
    assert not judge(made)


@pytest.mark.parametrize(
    ("made", "broken"),
    [
        (stream(got=2), "I36"),
        (stream(got=2, harm=Harm.STREAM), "I36"),
        (stream(got=2, harm=Harm.SILENT), "I36"),
        (stream(got=4), "I36"),
        (stream(finishes=0, waiting=True), "I36"),
        (stream(finishes=0, waiting=True, harm=Harm.STREAM), "I36"),
        (stream(finishes=0, waiting=True, expired=True), "I36"),
        (stream(error="why", finishes=0), "I36"),
        (stream(boundaries=1), "I14"),
        (stream(refused="draining", got=0), "I30"),
        (stream(refused="draining", may_be_refused=True, got=1), "I32"),
        (stream(late=True), "I32"),
    ],
)
def test_what_the_contract_forbids(made, broken):
    assert invariants(made) == [broken]


def test_a_target_that_cannot_report_refusals_is_not_asked_to():
    assert not judge(stream(late=True), records_failures=False)
    assert not judge(stream(late=True, late_recorded=True))


def test_a_session_delivers_as_many_boundaries_as_were_sent():
    made = stream(boundaries=2)
    made.boundaries = 2
    assert not judge(made)
