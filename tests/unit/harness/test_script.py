"""The language of scenarios on a tiny target: names, orders, expectations, faults, frames."""

import os

import pytest

from omni_verify.engine.gates import ThreadRuntime
from omni_verify.engine.order import PartialOrder
from omni_verify.engine.runtime import Cut
from omni_verify.errors import UsageError
from omni_verify.faults.nemesis import Injected
from omni_verify.harness import dye
from omni_verify.harness.script import Script
from omni_verify.settings import Settings


@pytest.fixture
def script(tiny, prefix):
    order = PartialOrder()
    runtime = ThreadRuntime(order, gate_s=10, wait_s=10, prefix=prefix)
    made = Script(tiny, runtime, order, prefix, settings=Settings(gate_s=10, wait_s=10))
    yield made
    made.shutdown()
    made.patcher.undo()


def test_names_carry_the_prefix(script, prefix):
    assert script.external("R") == f"{prefix}R"
    assert script.key("R", 1, 0) == f"{prefix}R_1_0"
    connector = script.connector()
    assert connector.config["wakeup_scope"] == prefix, "wake hints are this run's only"
    connector.put("1", "2", script.key("R", 1, 0), 7)
    assert [e.key for e in script.runtime.trace] == ["R_1_0", "R_1_0"]


def test_the_audit_sees_only_its_own_prefix(script, prefix):
    for name in (f"{prefix}R_1_0", f"x{prefix}R_1_0", "ovt-other-R_1_0"):
        open(f"/dev/shm/{name}", "x").close()
    try:
        assert script.shm() == ["R_1_0"]
    finally:
        for name in (f"{prefix}R_1_0", f"x{prefix}R_1_0", "ovt-other-R_1_0"):
            os.unlink(f"/dev/shm/{name}")
    assert script.shm() == []


def test_labels_and_numbers(script):
    numbers = {label: script.number(label) for label in ("R", "S", "R")}
    assert len(set(numbers.values())) == 2
    assert script.label_of(numbers["S"]) == "S"
    assert script.label_of(12345) == "unknown stream 12345"


def test_frames_are_read_back_and_damage_is_a_finding(script):
    codes = dye.flatten(dye.paint(script.number("R"), 2, 5, 2))
    assert script.frames(({"codes": {"audio": codes}}, 1)) == [("R", 2, 5), ("R", 2, 6)]
    assert script.frames(None) == []
    assert script.broken == []
    codes[0] += 1
    assert script.frames(({"codes": {"audio": codes}}, 1)) == [("R", 2, 6)]
    assert [b.family for b in script.broken] == [("I18", "I12")]


def test_expectations_count_and_failures_are_kept(script):
    assert script.expect("I29", True, "fine")
    assert not script.expect("I29", [], "not fine", expected="something", found=3, key="R")
    assert script.checked == 2
    (broken,) = script.broken
    assert (broken.family, broken.message, broken.expected, broken.found, broken.key) == (
        ("I29",), "not fine", "something", "3", "R",
    )  # fmt: skip


def test_no_residue_is_an_expectation(script, prefix):
    script.expect_no_residue("I51", "nothing")
    assert script.broken == []
    path = f"/dev/shm/{prefix}R_1_0"
    open(path, "x").close()
    try:
        script.expect_no_residue("I51", "an abort")
    finally:
        os.unlink(path)
    (broken,) = script.broken
    assert (broken.message, broken.found) == ("an abort leaves objects behind", "R_1_0")


def test_points_can_be_asked_for_and_required(script):
    script.mark("a")
    script.await_point("mark(a)")
    assert script.seen_point("main:mark(a)")
    assert not script.seen_point("mark(a)#2")
    script.require("mark(a)", "mark(b)")
    assert [str(r) for r in script.required if r.find(script.runtime.trace) is None] == ["mark(b)"]
    with pytest.raises(UsageError, match="Did you mean"):
        script.require("marc(a)")


def test_attempt_gives_the_exception_as_a_value(script):
    assert script.attempt(int, "3") == 3
    assert isinstance(script.attempt(int, "x"), ValueError)


def test_get_polls_until_the_value_is_there(script):
    connector = script.connector()
    script.actor("reader", lambda: script.expect("I29", script.get(connector, "R") == (7, 1), "arrives"))
    script.actor("writer", connector.put, "1", "2", "R", 7)
    script.run_order("get.exit(R)#1 < put.enter(R)")
    assert script.broken == []
    assert script.checked == 1


@pytest.mark.parametrize(
    ("options", "first", "stored"),
    [
        ({}, (False, 0, None), 0),
        ({"created": True}, (False, 0, None), 1),
        ({"raises": True}, Injected, 0),
        ({"raises": True, "created": True}, Injected, 1),
    ],
)
def test_a_put_fails_as_planned_and_once(script, options, first, stored):
    connector = script.connector()
    fault = script.fail_put("R", **options)
    got = script.attempt(connector.put, "1", "2", "R", 7)
    assert got == first or isinstance(got, first)
    assert len(connector.objects) == stored
    assert connector.put("1", "2", "R", 8)[0]
    assert fault.struck == 1
    assert script.seen_point("fault")


@pytest.mark.parametrize("verb", ["pause", "after"])
def test_a_pause_holds_the_actor_until_its_condition(script, verb):
    connector = script.connector()
    getattr(script, verb)("put", "R", until=lambda: script.seen_point("mark(x)"), what="x")
    stored = []

    def other():
        script.await_point("put.enter(R)")
        stored.append("R" in connector.objects if verb == "pause" else None)
        script.mark("x")

    script.actor("writer", connector.put, "1", "2", "R", 7)
    script.actor("other", other)
    script.run()
    order = [str(e) for e in script.runtime.trace if e.point in ("mark", "put.exit")]
    assert order == ["other: mark(x)", "writer: put.exit(R)"]
    assert stored in ([False], [None])


def test_processes_need_the_scripted_order(script):
    script.runtime = object()
    with pytest.raises(UsageError, match="scripted order only"):
        script.process("sender", lambda peer: None)
    script.runtime = ThreadRuntime(PartialOrder())


def test_shutdown_closes_every_connector_and_audits(script):
    connectors = [script.connector(), script.connector(2)]
    assert script.seen.closed is None
    script.shutdown()
    assert all(c.closed for c in connectors)
    assert script.seen.closed == []


def test_a_wait_that_cannot_end_is_a_cut(tiny, prefix):
    runtime = ThreadRuntime(PartialOrder(), wait_s=0.1)
    with pytest.raises(Cut, match="a miracle"):
        Script(tiny, runtime, PartialOrder(), prefix).until(lambda: False, "a miracle")
