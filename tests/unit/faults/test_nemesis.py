"""Planned faults strike where, when and how they were planned, and say so."""

import pytest

from omni_verify.engine.instrument import Replace
from omni_verify.faults.nemesis import Fault, Injected, Nemesis


@pytest.fixture
def reached():
    return []


@pytest.fixture
def nemesis(reached):
    return Nemesis(lambda point, key, **detail: reached.append((point, key, detail)), "p-")


def call(nemesis, key="p-R_1_0", point="put", result="real"):
    """What the instrumented call gives: the real result, a stand-in, or the exception."""
    try:
        nemesis.before(point, key, (), {})
    except Replace as stand_in:
        return ("instead", stand_in.value)
    except Injected as error:
        return ("raised before", str(error))
    try:
        return nemesis.after(point, key, result)
    except Injected as error:
        return ("raised after", str(error))


def test_the_first_call_is_struck_and_no_other(nemesis, reached):
    fault = nemesis.add(Fault(point="put", value=lambda result: (False, result)))
    assert [call(nemesis) for _ in range(3)] == [("instead", (False, None)), "real", "real"]
    assert (fault.struck, fault.seen) == (1, 3)
    assert reached == [("fault", "p-R_1_0", {"what": "put before"})]


@pytest.mark.parametrize(("times", "struck"), [((2,), [2]), ((1, 3), [1, 3]), ((), [1, 2, 3, 4]), ((9,), [])])
def test_times(nemesis, times, struck):
    fault = nemesis.add(Fault(point="put", times=times))
    assert [i for i in range(1, 5) if call(nemesis) != "real"] == struck
    assert fault.struck == len(struck)


@pytest.mark.parametrize(
    ("glob", "keys"),
    [("*", ["R_1_0", "R_1_1", "S_1_0"]), ("R_*", ["R_1_0", "R_1_1"]), ("R_1_1", ["R_1_1"]), ("p-*", [])],
)
def test_the_key_is_a_glob_without_the_prefix_of_the_run(nemesis, glob, keys):
    nemesis.add(Fault(point="put", key=glob, times=()))
    assert [k for k in ("R_1_0", "R_1_1", "S_1_0") if call(nemesis, f"p-{k}") != "real"] == keys


def test_another_point_is_left_alone_and_not_counted(nemesis):
    fault = nemesis.add(Fault(point="put"))
    assert call(nemesis, point="get") == "real"
    assert fault.seen == 0
    assert call(nemesis) == ("instead", None)


def test_after_strikes_when_it_has_happened(nemesis):
    nemesis.add(Fault(point="put", after=True, value=lambda result: ("changed", result)))
    assert call(nemesis) == ("changed", "real")
    nemesis.add(Fault(point="put", after=True, error=Injected("lost"), times=(1,)))
    assert call(nemesis) == ("raised after", "lost")


def test_an_error_before_stands_in_for_the_call(nemesis, reached):
    nemesis.add(Fault(point="put", error=Injected("full"), note="the disk is full"))
    assert call(nemesis) == ("raised before", "full")
    assert reached == [("fault", "p-R_1_0", {"what": "the disk is full"})]


def test_every_fault_counts_every_call_that_concerns_it(nemesis):
    """Two faults on one operation: each strikes at its own occurrence, whichever struck before."""
    first = nemesis.add(Fault(point="put", times=(1,), value=lambda _r: "one"))
    second = nemesis.add(Fault(point="put", times=(2,), value=lambda _r: "two"))
    assert [call(nemesis) for _ in range(3)] == [("instead", "one"), ("instead", "two"), "real"]
    assert (first.struck, second.struck) == (1, 1)


@pytest.mark.parametrize(("after", "order"), [(False, ["held", "before"]), (True, ["before", "held"])])
def test_a_hold_runs_before_or_after_and_leaves_the_call_alone(nemesis, after, order):
    steps = []
    nemesis.hold("put", "R_1_0", (2,), lambda: steps.append("held"), after=after)
    assert call(nemesis) == "real"
    nemesis.before("put", "p-R_1_0", (), {})
    steps.append("before")
    assert nemesis.after("put", "p-R_1_0", "real") == "real"
    assert steps == order
    assert call(nemesis, "p-S_1_0") == "real"
    assert len(steps) == 2
