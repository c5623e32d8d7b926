"""Shrinking: the same failure with few preemptions, within the reruns that it is given."""

import pytest

from omni_verify.campaign.explore.blocks import joined
from omni_verify.campaign.explore.shrink import shrunk
from omni_verify.engine import explore as engine
from omni_verify.engine.control.deques import deque
from omni_verify.engine.control.threads import Thread
from omni_verify.engine.minimise import Minimised

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
def found():
    """The failure as alternating tasks show it, and all that shrinking it needs."""
    program = Program()
    result = engine.explore(
        program, strategy="random", budget=200, seed=1, name="p", bounds=BOUNDS, shrink=False
    )
    (first,) = result.failures
    assert first.schedule.deviations > 8
    return first, program, result


def test_one_preemption_is_left_and_the_token_shows_the_failure(found):
    first, program, result = found
    small = shrunk(first, program, result, 400)
    assert small.minimised.preemptions == 1
    assert (small.execution, small.failure.identity) == (first.execution, first.failure.identity)
    assert engine.replay(small.token, program, name="p").outcome == "VIOLATED"


def test_joining_blocks_alone_leaves_few_preemptions(found):
    first, program, _ = found
    tape = list(first.schedule.tape)
    begun = Minimised(tape, len(tape), first.schedule.deviations, 10_000, 0)
    scheduler = BOUNDS.scheduler()
    try:
        small = joined(scheduler, program, first.failure.identity, begun, 200)
    finally:
        scheduler.close()
    assert small.preemptions <= 2
    assert small.switches < first.schedule.deviations / 2


def test_reruns_are_a_bound(found):
    first, program, result = found
    before = program.executions
    shrunk(first, program, result, 40)
    polish, token = 40, 6
    assert program.executions - before <= 40 + polish + token


def test_no_reruns_leave_it_as_it_was_found(found):
    first, program, result = found
    before = program.executions
    assert shrunk(first, program, result, 0) is first
    assert program.executions == before
