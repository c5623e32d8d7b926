"""Scenario runtimes: the same tape gives the same points on tasks and on processes."""

import os

import pytest

from omni_verify.engine.control import ControlledRuntime, Mistake, Scheduler, clock
from omni_verify.engine.control.processes import ProcessRuntime
from omni_verify.engine.explore import Bounds, explore, replay
from omni_verify.engine.strategies import RandomWalk, Replay
from omni_verify.errors import UsageError


def program(make, path, seen):
    """A writer and an abort over one file; the file is left when the abort comes first."""

    def body():
        runtime = make()
        path.unlink(missing_ok=True)

        def put():
            runtime.reach("put.enter", "k")
            if runtime.choose(2, "put fails"):
                runtime.reach("fault", "k")
                return
            path.write_text("x")
            runtime.reach("put.exit", "k", size=1)

        def abort():
            runtime.reach("abort.enter", "k")
            path.unlink(missing_ok=True)
            runtime.reach("abort.exit", "k")

        runtime.spawn("producer", put)
        runtime.spawn("client", abort)
        runtime.run()
        seen.append([(event.actor, event.point) for event in runtime.trace.events])
        assert not runtime.failures
        assert runtime.finished
        assert not path.exists(), "orphan"

    return body


def test_processes_and_tasks_agree_on_every_tape(tmp_path):
    scheduler = Scheduler(granularity="connector")
    for seed in range(8):
        seen = []
        walk = RandomWalk(seed)
        walk.new_execution()
        one = scheduler.run(program(ControlledRuntime, tmp_path / "f", seen), walk)
        follow = Replay(one.tape)
        follow.new_execution()
        two = scheduler.run(program(ProcessRuntime, tmp_path / "f", seen), follow)
        assert two.tape == one.tape
        assert (two.failure and two.failure.identity) == (one.failure and one.failure.identity)
        assert seen[0] == seen[1]


def test_orphan_is_found_with_processes(tmp_path):
    name = "orphan"
    bounds = Bounds(granularity="connector")
    body = program(ProcessRuntime, tmp_path / "f", [])
    found = explore(body, name=name, budget=40, seed=1, bounds=bounds, shrink=False).failures[0]
    assert found.failure.identity == "AssertionError: orphan"
    again = replay(found.token, program(ControlledRuntime, tmp_path / "f", []), name=name)
    assert again.outcome == "VIOLATED"


def test_process_that_dies_is_named(tmp_path):
    def body():
        runtime = ProcessRuntime()
        runtime.spawn("victim", lambda: os._exit(9))
        runtime.run()
        raise runtime.failures["victim"]

    found = explore(body, budget=1, bounds=Bounds(granularity="connector"), shrink=False).failures[0]
    assert "'victim' ended without reaching its end" in found.failure.message


@pytest.mark.parametrize("make", [ControlledRuntime, ProcessRuntime])
def test_exception_of_an_actor_is_kept(make):
    def body():
        runtime = make()

        def fail():
            runtime.reach("step", "x")
            raise ValueError("boom")

        runtime.spawn("actor", fail)
        runtime.run()
        assert repr(runtime.failures["actor"]) == "ValueError('boom')"

    assert not explore(body, budget=2, bounds=Bounds(granularity="connector")).failures


@pytest.mark.parametrize("make", [ControlledRuntime, ProcessRuntime])
def test_until_waits_for_another_actor(make, tmp_path):
    path = tmp_path / "ready"

    def body():
        path.unlink(missing_ok=True)
        runtime = make()

        def wait():
            runtime.until(path.exists, "the file")
            assert path.exists()

        def write():
            runtime.reach("put.enter", "k")
            path.write_text("x")

        runtime.spawn("reader", wait)
        runtime.spawn("writer", write)
        runtime.run()
        assert not runtime.failures
        assert sorted(runtime.finished) == runtime.actors

    result = explore(body, budget=20, strategy="random", bounds=Bounds(granularity="connector"))
    assert result.failures == []


def test_until_that_never_comes_is_a_deadlock():
    def body():
        runtime = ControlledRuntime()
        runtime.spawn("reader", lambda: runtime.until(lambda: False, "a chunk"))
        runtime.run()

    failure = explore(body, budget=1).failures[0].failure
    assert failure.kind == "deadlock"
    assert "reader (thread) at until a chunk" in failure.detail


@pytest.mark.parametrize("strategy", ["random", "round_robin"])
def test_until_gives_up_after_its_virtual_seconds(strategy):
    """Another actor goes on for ever, so that nothing is ever stuck."""

    def body():
        runtime = ControlledRuntime()

        def tick():
            while True:
                clock.sleep(1)

        runtime.spawn("reader", lambda: runtime.until(lambda: False, "a chunk", 5.0))
        runtime.spawn("ticker", tick)
        runtime.run()

    found = explore(body, budget=1, strategy=strategy).failures[0]
    assert found.failure.kind == "livelock"
    assert found.failure.message == "livelock: reader still waits for a chunk after 5 s of virtual time"
    assert "reader (thread) at until a chunk" in found.failure.detail
    assert len(found.trace) < 20
    assert replay(found.token, body).outcome == "VIOLATED"


def test_until_without_a_bound_ends_with_the_steps():
    def body():
        runtime = ControlledRuntime()

        def tick():
            while True:
                clock.sleep(1)

        runtime.spawn("reader", lambda: runtime.until(lambda: False, "a chunk"))
        runtime.spawn("ticker", tick)
        runtime.run()

    (found,) = explore(body, budget=1, bounds=Bounds(max_steps=200), shrink=False).failures
    assert found.failure.kind == "livelock"


def test_until_that_is_met_in_time_does_not_give_up():
    def body():
        runtime = ControlledRuntime()
        ready = []

        def write():
            clock.sleep(4)
            ready.append(1)

        runtime.spawn("reader", lambda: runtime.until(lambda: bool(ready), "a chunk", 5.0))
        runtime.spawn("writer", write)
        runtime.run()
        assert not runtime.failures

    assert not explore(body, budget=30, bounds=Bounds(early_timers=2)).failures


def test_names_are_unique_and_a_schedule_is_needed():
    with pytest.raises(Mistake, match="runs under"):
        ControlledRuntime()

    def body():
        runtime = ControlledRuntime()
        runtime.spawn("a", print)
        with pytest.raises(UsageError, match="unique"):
            runtime.spawn("a", print)

    assert not explore(body, budget=1).failures
