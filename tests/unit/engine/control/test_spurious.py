"""Spurious wake-ups: off by default, within their budget, on the tape and in the token."""

import pytest

from omni_verify.engine import token
from omni_verify.engine.control import clock, conditions, threads
from omni_verify.engine.explore import Bounds, explore, replay


def handover(*, loop):
    """A consumer that waits for an item, in a loop as it should or once."""

    def program():
        condition, items = conditions.Condition(), []

        def consume():
            with condition:
                if loop:
                    while not items:
                        condition.wait()
                elif not items:
                    condition.wait()
                items.pop()

        consumer = threads.Thread(target=consume, name="consumer")
        consumer.start()
        clock.sleep(0)
        with condition:
            items.append(1)
            condition.notify()
        consumer.join()

    return program


def test_the_default_is_cpythons_behaviour():
    result = explore(handover(loop=False), strategy="exhaustive", budget=5000)
    assert result.complete
    assert result.failures == []


@pytest.mark.parametrize("strategy", ["exhaustive", "portfolio", "random"])
def test_a_wait_without_a_loop_is_found(strategy):
    result = explore(
        handover(loop=False),
        strategy=strategy,
        budget=500,
        bounds=Bounds(spurious_wakeups=1),
        name="handover",
    )
    assert result.failures
    found = result.failures[0]
    assert "pop from empty list" in found.failure.message
    assert token.decode(found.token).spurious_wakeups == 1
    for carrier in ("greenlet", "thread"):
        again = replay(found.token, handover(loop=False), name="handover", carrier=carrier)
        assert again.outcome == "VIOLATED"
        assert again.run.trace == found.trace
        assert (
            replay(found.token, handover(loop=True), name="handover", carrier=carrier).outcome != "VIOLATED"
        )


def test_a_loop_makes_it_right_and_completeness_names_the_budget():
    result = explore(
        handover(loop=True), strategy="exhaustive", budget=50_000, bounds=Bounds(spurious_wakeups=2)
    )
    assert result.complete
    assert result.failures == []
    assert "2 spurious wake-ups" in result.completeness


def test_the_budget_is_kept():
    woken = set()

    def program():
        condition, times = conditions.Condition(), []

        def wait():
            with condition:
                for _ in range(3):
                    condition.wait()
                    times.append(1)

        threads.Thread(target=wait, daemon=True).start()
        for _ in range(5):
            clock.sleep(0)
        woken.add(len(times))

    explore(program, strategy="exhaustive", budget=5000, bounds=Bounds(spurious_wakeups=2, early_timers=0))
    assert woken == {0, 1, 2}


def test_nobody_is_saved_from_a_deadlock_by_a_spurious_wakeup():
    def program():
        condition = conditions.Condition()
        with condition:
            condition.wait()

    result = explore(program, budget=10, bounds=Bounds(spurious_wakeups=5))
    assert result.failures[0].failure.kind == "deadlock"
