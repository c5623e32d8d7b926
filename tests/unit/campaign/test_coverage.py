"""Coverage counts what traces show, and names what they do not."""

from omni_verify.campaign.coverage import Coverage, observe
from omni_verify.trace.event import Event


def trace(*steps):
    return [Event(seq=i, actor=actor, point=point, key=key) for i, (actor, point, key) in enumerate(steps)]


OVERLAP = trace(
    ("p.save", "put.enter", "R_1_0"),
    ("client", "abort.enter", "R"),
    ("client", "abort.exit", "R"),
    ("p.save", "put.exit", "R_1_0"),
    ("c.recv", "get.enter", "R_1_0"),
    ("c.recv", "get.exit", "R_1_0"),
)


def test_overlapping_operations_of_two_actors_are_concurrent():
    assert observe(OVERLAP).concurrent == {"abort || put": 1}


def test_neighbours_on_a_key_by_two_actors_are_an_order():
    assert observe(OVERLAP).orders == {"put.exit < get.enter": 1}


def test_points_of_the_harness_do_not_count():
    assert not observe(trace(("a", "mark", "x"), ("a", "tick.enter", "s"))).points


def test_coverages_add_up():
    total = Coverage()
    for _ in range(2):
        total.add(observe(OVERLAP, ["I29"]))
    assert (total.runs, total.points["put.enter"], total.invariants) == (2, 2, {"I29": 2})
    assert total.concurrent == {"abort || put": 2}


def test_operations_that_one_thread_does_are_no_gap():
    seen = observe(
        trace(
            ("p.save", "send.enter", "R"),
            ("p.save", "put.enter", "R_1_0"),
            ("talker", "save.enter", "R"),
            ("client", "abort.enter", "R"),
            ("talker", "save.exit", "R"),
            ("client", "abort.exit", "R"),
        )
    )
    gaps = seen.gaps(possible=["send", "put", "save", "abort"])
    assert "put || send" not in gaps.concurrent  # one is inside the other
    assert "release || save" not in gaps.concurrent
    assert "save || save" not in gaps.concurrent  # the scheduler's verbs
    assert set(observe(OVERLAP).gaps(possible=["put", "get"]).concurrent) == {"abort || get", "get || put"}


def test_gaps_name_what_was_possible_and_did_not_happen():
    gaps = observe(OVERLAP).gaps(
        possible=["put", "get", "abort", "reap"], nemeses=["put-false"], verbs=["admit"]
    )
    assert gaps.operations == ("reap",)
    assert "get || put" in gaps.concurrent
    assert "abort || put" not in gaps.concurrent
    assert gaps.orders == ("get.enter < put.exit",)
    assert (gaps.nemeses, gaps.verbs) == (("put-false",), ("admit",))
