"""Verdicts come from positive evidence only; each gap alone makes a case inconclusive."""

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_verify.verdict import EXIT_CODES, Evidence, Finding, Verdict, combine, exit_code, judge

FULL = Evidence(
    actors=("client", "producer"),
    finished=("producer", "client"),
    orders=("put.enter(R) < abort.enter(R)",),
    checked=1,
)
FINDING = Finding(invariant="I51", message="1 segment is left", key="R_1_0")
GAPS = {
    "cut": ({"cut": "client waited in vain"}, "client waited in vain"),
    "no actor": ({"actors": (), "finished": ()}, "no actor was declared"),
    "unfinished": ({"finished": ("client",)}, "actors that did not end: producer"),
    "unobserved": ({"unobserved": FULL.orders}, "order not observed: put.enter(R) < abort.enter(R)"),
    "unreached": ({"unreached": ("seg.create.enter(R)",)}, "point not reached: seg.create.enter(R)"),
    "unchecked": ({"checked": 0}, "no check had anything to look at"),
}


def test_full_evidence_is_held():
    assert judge([], FULL) == (Verdict.HELD, "")


def test_no_evidence_is_inconclusive():
    assert judge([], Evidence())[0] is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("gap", GAPS)
def test_each_gap_alone_is_inconclusive_and_named(gap):
    change, reason = GAPS[gap]
    assert judge([], msgspec.structs.replace(FULL, **change)) == (Verdict.INCONCLUSIVE, reason)


@pytest.mark.parametrize("gap", GAPS)
def test_a_finding_outweighs_every_gap(gap):
    evidence = msgspec.structs.replace(FULL, **GAPS[gap][0])
    assert judge([FINDING], evidence) == (Verdict.VIOLATED, "1 segment is left")


@given(
    st.builds(
        Evidence,
        actors=st.sets(st.sampled_from("abc")).map(tuple),
        finished=st.sets(st.sampled_from("abc")).map(tuple),
        unobserved=st.lists(st.just("a < b"), max_size=1).map(tuple),
        unreached=st.lists(st.just("p"), max_size=1).map(tuple),
        checked=st.integers(0, 2),
        cut=st.sampled_from(["", "cut"]),
    )
)
def test_held_means_that_nothing_is_missing(evidence):
    verdict, reason = judge([], evidence)
    assert (verdict is Verdict.HELD) == (
        bool(evidence.actors)
        and set(evidence.actors) <= set(evidence.finished)
        and not evidence.unobserved
        and not evidence.unreached
        and evidence.checked > 0
        and not evidence.cut
    )
    assert (verdict is Verdict.INCONCLUSIVE) == bool(reason)


def test_every_gap_is_listed():
    evidence = Evidence(actors=("a",), unobserved=("a < b",), unreached=("p",), cut="cut off")
    assert evidence.gaps() == [
        "cut off",
        "actors that did not end: a",
        "order not observed: a < b",
        "point not reached: p",
        "no check had anything to look at",
    ]


RANK = [Verdict.VIOLATED, Verdict.INCONCLUSIVE, Verdict.HELD]


def test_combine_takes_the_worst_and_never_holds_from_nothing():
    for size in range(4):
        for verdicts in itertools.product(Verdict, repeat=size):
            executed = [v for v in verdicts if v is not Verdict.NOT_APPLICABLE]
            want = min(executed, key=RANK.index) if executed else Verdict.INCONCLUSIVE
            assert combine(verdicts) is want, verdicts


def test_exit_codes():
    assert {v: exit_code(v) for v in Verdict} == EXIT_CODES
    assert [exit_code(v) for v in RANK] == [1, 3, 0]
    assert exit_code(Verdict.NOT_APPLICABLE) == 3
    assert [exit_code(v, allow_inconclusive=True) for v in RANK] == [1, 0, 0]


def test_a_finding_is_the_same_when_invariant_and_key_are():
    other = msgspec.structs.replace(FINDING, message="2 segments are left", evidence={"n": 2})
    assert other.identity == FINDING.identity
    assert msgspec.structs.replace(FINDING, key="S").identity != FINDING.identity
    assert msgspec.structs.replace(FINDING, invariant="I31").identity != FINDING.identity
