"""The partial order: what is refused, who blocks, and what a trace does not show."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omni_verify.engine.order import PartialOrder
from omni_verify.errors import UsageError
from omni_verify.trace.event import Trace


def order(*chains):
    made = PartialOrder()
    made.add(*chains)
    return made


def trace(*events):
    made = Trace()
    for text in events:
        actor, _, rest = text.partition(":")
        point, _, key = rest.rstrip(")").partition("(")
        made.append(actor, point, key)
    return made


def test_a_chain_becomes_its_edges():
    made = order("put.enter(R) < abort.enter(R)<put.exit(R)", "mark(x) < put.enter(R)")
    assert made.texts() == [
        "put.enter(R) < abort.enter(R)",
        "abort.enter(R) < put.exit(R)",
        "mark(x) < put.enter(R)",
    ]
    assert [str(r) for r in made.refs()] == ["put.enter(R)", "abort.enter(R)", "put.exit(R)", "mark(x)"]


@pytest.mark.parametrize(
    "chains",
    [
        ["mark(a) < mark(a)"],
        ["mark(a) < mark(b) < mark(a)"],
        ["mark(a) < mark(b)", "mark(b) < mark(c)", "mark(c) < mark(a)"],
    ],
)
def test_cycles_are_refused_and_named(chains):
    with pytest.raises(UsageError, match=r"cyclic: .*mark\(a\)"):
        order(*chains)


@pytest.mark.parametrize("chain", ["mark(a)", "", "mark(a) <", "mark(a) > mark(b)", "mark(a) < nonsense(b)"])
def test_unreadable_chains_are_refused(chain):
    with pytest.raises(UsageError):
        order(chain)


@pytest.mark.parametrize("bad", ["mark(b) < mark(a)", "mark(b) < nonsense"])
def test_a_refused_order_leaves_the_former_one(bad):
    made = order("mark(a) < mark(b)")
    with pytest.raises(UsageError):
        made.add("mark(b) < mark(c)", bad)
    assert made.texts() == ["mark(a) < mark(b)"]
    made.add("mark(b) < mark(d)")


@given(st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12))
def test_refused_exactly_when_no_permutation_satisfies_it(edges):
    satisfiable = any(
        all(p.index(a) < p.index(b) for a, b in edges if a != b) for p in itertools.permutations(range(6))
    ) and all(a != b for a, b in edges)
    made = PartialOrder()
    if satisfiable:
        made.add(*(f"mark({a}) < mark({b})" for a, b in edges))
    elif edges:
        with pytest.raises(UsageError, match="cyclic"):
            made.add(*(f"mark({a}) < mark({b})" for a, b in edges))


def blockers(made, seen, actor, point, key):
    return [str(b) for b in made.blockers(actor, point, key, seen)]


def test_blockers_are_the_predecessors_that_have_not_happened():
    made = order("put.enter(R) < abort.enter(R)", "mark(x) < abort.enter(R)")
    assert blockers(made, trace(), "c", "abort.enter", "R") == ["put.enter(R)", "mark(x)"]
    assert blockers(made, trace("p:put.enter(R)"), "c", "abort.enter", "R") == ["mark(x)"]
    assert blockers(made, trace("p:put.enter(S)"), "c", "abort.enter", "R") == ["put.enter(R)", "mark(x)"]
    assert blockers(made, trace("p:put.enter(R)", "m:mark(x)"), "c", "abort.enter", "R") == []
    assert blockers(made, trace(), "c", "abort.enter", "S") == []
    assert blockers(made, trace(), "c", "abort.exit", "R") == []


def test_only_the_named_occurrence_is_blocked():
    made = order("mark(x) < put.enter(R)#2")
    assert blockers(made, trace(), "p", "put.enter", "R") == []
    assert blockers(made, trace("p:put.enter(R)"), "p", "put.enter", "R") == ["mark(x)"]
    assert blockers(made, trace("p:put.enter(R)", "q:put.enter(R)"), "p", "put.enter", "R") == []


def test_only_the_named_actor_is_blocked_and_counted():
    made = order("reader:get.exit(R)#2 < client:abort.enter(*)")
    seen = trace("reader:get.exit(R)", "other:get.exit(R)")
    assert blockers(made, seen, "other", "abort.enter", "R") == []
    assert blockers(made, seen, "client", "abort.enter", "Q") == ["reader:get.exit(R)#2"]
    seen.append("reader", "get.exit", "R")
    assert blockers(made, seen, "client", "abort.enter", "Q") == []


@pytest.mark.parametrize(
    ("edge", "events", "observed"),
    [
        ("mark(a) < mark(b)", ["x:mark(a)", "x:mark(b)"], True),
        ("mark(a) < mark(b)", ["x:mark(b)", "x:mark(a)"], False),
        ("mark(a) < mark(b)", ["x:mark(a)"], False),
        ("mark(a) < mark(b)", ["x:mark(b)"], False),
        ("mark(a) < mark(b)", [], False),
        # the first b came too early; a later one heals nothing
        ("mark(a) < mark(b)", ["x:mark(b)", "x:mark(a)", "x:mark(b)"], False),
        ("mark(a) < mark(b)#2", ["x:mark(b)", "x:mark(a)", "x:mark(b)"], True),
        ("mark(a)#2 < mark(b)", ["x:mark(a)", "x:mark(b)", "x:mark(a)"], False),
        ("x:mark(a) < y:mark(b)", ["x:mark(a)", "y:mark(b)"], True),
        ("x:mark(a) < y:mark(b)", ["y:mark(a)", "y:mark(b)"], False),
        ("x:mark(a) < y:mark(b)", ["x:mark(a)", "x:mark(b)"], False),
        ("put.enter < put.exit", ["x:put.enter(R)", "x:put.exit(S)"], True),
    ],
)
def test_unobserved(edge, events, observed):
    assert order(edge).unobserved(trace(*events)) == ([] if observed else [edge])


def test_unobserved_names_only_what_is_missing():
    made = order("mark(a) < mark(b)", "mark(b) < mark(c)")
    assert made.unobserved(trace("x:mark(a)", "x:mark(b)")) == ["mark(b) < mark(c)"]
