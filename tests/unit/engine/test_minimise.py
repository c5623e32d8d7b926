"""Shrinking: the same failure with few preemptions, within the reruns that it is given."""

import pytest

from omni_verify.engine import explore as engine
from omni_verify.engine.control.deques import deque
from omni_verify.engine.control.threads import Thread
from omni_verify.engine.minimise import minimise
from omni_verify.engine.minimise.attempts import Attempts
from omni_verify.engine.minimise.blocks import join_blocks

BOUNDS = engine.Bounds(early_timers=0)


class Program:
    """Two threads raise a number, with other operations around it; counts its executions."""

    def __init__(self) -> None:
        self.executions = 0

    def __call__(self) -> None:
        self.executions += 1
        box, aside = deque([0]), deque()

        def add() -> None:
            for _ in range(8):
                aside.append(1)
            value = box[0]
            box[0] = value + 1
            for _ in range(8):
                aside.append(1)

        threads = [Thread(target=add, name=f"t{i}") for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert box[0] == 2, "lost"


@pytest.fixture
def program():
    return Program()


def searched(program, **more):
    return engine.explore(program, strategy="random", budget=200, seed=1, name="p", bounds=BOUNDS, **more)


@pytest.fixture
def found(program):
    """The failure as alternating tasks show it."""
    (first,) = searched(program, shrink=False).failures
    assert first.schedule.deviations > 8
    return first


def test_one_preemption_is_left_and_the_token_shows_the_failure(found, program):
    (small,) = searched(program).failures
    assert small.minimised.preemptions == 1
    assert (small.execution, small.failure.identity) == (found.execution, found.failure.identity)
    assert engine.replay(small.token, program, name="p").outcome == "VIOLATED"


def test_joining_blocks_alone_leaves_few_preemptions(found, program):
    with BOUNDS.borrowed() as scheduler:
        attempts = Attempts(scheduler, program, found.failure.identity, 200)
        assert attempts.begin(list(found.schedule.tape))
        join_blocks(attempts, 150)
    assert attempts.left >= 200 - 1 - 150
    assert attempts.best.preemptions <= 2
    assert attempts.best.switches < found.schedule.deviations / 2


@pytest.mark.parametrize("reruns", [1, 2, 3, 5, 10, 40, 400])
def test_reruns_are_a_bound(found, program, reruns):
    before = program.executions
    with BOUNDS.borrowed() as scheduler:
        small = minimise(
            scheduler, program, list(found.schedule.tape), found.failure.identity, max_reruns=reruns
        )
    assert program.executions - before == small.reruns <= reruns


def test_no_reruns_leave_it_as_it_was_found(found, program):
    program.executions = 0
    (same,) = searched(program, max_reruns=0).failures
    assert same.schedule.tape == found.schedule.tape
    assert same.minimised is None
    certificate_and_confirmation = 2
    assert program.executions == same.execution + certificate_and_confirmation


def test_a_schedule_that_fails_no_more_is_not_shrunk(found, program):
    with BOUNDS.borrowed() as scheduler:
        assert minimise(scheduler, program, [], found.failure.identity) is None


def test_a_shrunk_schedule_that_does_not_come_again_is_taken_back(monkeypatch, program, found):
    holds = engine.Minimised([], 0, 0, 1, 1)
    monkeypatch.setattr(engine, "minimise", lambda *_, **__: holds)
    result = searched(program)
    (same,) = result.failures
    assert same.schedule.tape == found.schedule.tape
    assert same.minimised is None
    assert not result.certificate.uncontrolled
