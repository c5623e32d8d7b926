"""Point references: text form, matching, and the agreement of enforcement with verification."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_verify.engine.points import MOMENTS, OPERATIONS, PointRef, point_names
from omni_verify.errors import UsageError
from omni_verify.trace.event import Trace

NAMES = sorted(point_names())
# Hostile ids become keys: brackets, signs of the grammar and anything else on one line.
KEYS = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), max_size=12)
ACTORS = st.from_regex(r"[a-z][a-z0-9.-]{0,8}", fullmatch=True)
REFS = st.builds(
    PointRef, st.sampled_from(NAMES), KEYS | st.just("*"), ACTORS | st.just(""), st.integers(1, 99)
)


@given(REFS)
def test_text_form_round_trips(ref):
    assert PointRef.parse(str(ref)) == ref
    assert PointRef.parse(f"  {ref} ") == ref


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("put.enter", PointRef("put.enter")),
        ("put.enter(*)", PointRef("put.enter")),
        ("put.enter()", PointRef("put.enter", "")),
        ("put.enter(R_1_0)#2", PointRef("put.enter", "R_1_0", "", 2)),
        ("client:abort.exit(R)", PointRef("abort.exit", "R", "client")),
        ("producer.save:put.exit(a)#2(b))", PointRef("put.exit", "a)#2(b)", "producer.save")),
        ("seg.write.exit(../etc:x)", PointRef("seg.write.exit", "../etc:x")),
    ],
)
def test_forms(text, ref):
    assert PointRef.parse(text) == ref


@pytest.mark.parametrize(
    "text", ["", "put.enter(R", "PUT.enter", "a b:put.enter", "put.enter(R)#", "put.enter(R)#-1"]
)
def test_unreadable_text_says_what_is_expected(text):
    with pytest.raises(UsageError, match=r"expected \[ACTOR:\]POINT\[\(KEY\)\]\[#N\]"):
        PointRef.parse(text)


@pytest.mark.parametrize(
    ("text", "near"),
    [("put.entr(R)", "put.enter"), ("abort.exits(R)", "abort.exit"), ("seg.unlnk.exit", "seg.unlink.exit")],
)
def test_unknown_point_names_the_nearest(text, near):
    with pytest.raises(UsageError, match=f"Did you mean '{near}'"):
        PointRef.parse(text)


def test_occurrence_zero_is_refused():
    with pytest.raises(UsageError, match="count from #1"):
        PointRef.parse("put.enter(R)#0")


def test_every_operation_has_two_sides_and_moments_have_none():
    names = point_names()
    assert all(f"{op}.{side}" in names for op in OPERATIONS for side in ("enter", "exit"))
    assert all(m in names and f"{m}.enter" not in names for m in MOMENTS)
    assert len(names) == 2 * len(OPERATIONS) + len(MOMENTS)


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.sampled_from(["put.enter", "put.exit"]),
        st.sampled_from(["", "*", "R", "S"]),
    ),
    max_size=12,
)


@given(EVENTS, st.sampled_from(["*", "", "R"]), st.sampled_from(["", "a"]), st.integers(1, 4))
def test_what_is_found_is_the_nth_event_that_matches(events, key, actor, nth):
    """The gate asks `matches`, the verification asks `find` and `count`: they must mean the same events."""
    trace = Trace()
    for event in events:
        trace.append(*event)
    ref = PointRef("put.enter", key, actor, nth)
    matching = [e for e in trace if ref.matches(e.actor, e.point, e.key)]
    assert ref.count(trace) == len(matching)
    assert ref.find(trace) == (matching[nth - 1] if len(matching) >= nth else None)
