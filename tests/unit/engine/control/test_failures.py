"""Deadlock, lost wakeup, livelock, leaked and uncontrolled threads: found, named, explained."""

import threading as real_threading
import time as real_time

import pytest

from omni_verify.engine.control import clock, conditions, locks, threads
from omni_verify.engine.explore import Bounds, explore, replay


def first(program, **options):
    result = explore(program, budget=500, **options)
    assert result.failures, "nothing found"
    return result.failures[0]


def test_deadlock_shows_the_cycle():
    def program():
        a, b = locks.Lock(), locks.Lock()

        def work(one, two):
            with one, two:
                pass

        workers = [
            threads.Thread(target=work, args=(a, b), name="left"),
            threads.Thread(target=work, args=(b, a), name="right"),
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    failure = first(program).failure
    assert failure.kind == "deadlock"
    assert "left (thread) at acquire Lock#2, held by right" in failure.detail
    assert "right (thread) at acquire Lock#1, held by left" in failure.detail
    assert "cycle: left -> right -> left" in failure.detail


def test_self_deadlock_needs_one_schedule():
    def program():
        lock = locks.Lock()
        lock.acquire()
        lock.acquire()

    found = first(program)
    assert found.execution == 1
    assert found.failure.kind == "deadlock"


def test_lost_wakeup_names_who_notified():
    def program():
        condition = conditions.Condition()

        def notify():
            with condition:
                condition.notify()

        threads.Thread(target=notify, name="notifier").start()
        with condition:
            condition.wait()

    failure = first(program).failure
    assert failure.kind == "lost-wakeup"
    assert "notifier notified" in failure.detail


def test_livelock_is_judged_under_a_fair_choice():
    def spin_for_ever():
        stop = conditions.Event()
        while not stop.is_set():
            pass

    def spin_until_set():
        stop = conditions.Event()
        threads.Thread(target=stop.set).start()
        while not stop.is_set():
            pass

    bounds = Bounds(max_steps=200)
    assert first(spin_for_ever, bounds=bounds).failure.kind == "livelock"
    # The unfair default order starves the setter; the fair tail must let it run.
    result = explore(spin_until_set, strategy="exhaustive1", budget=30, bounds=bounds)
    assert result.failures == []
    assert result.certificate.cut
    assert not result.complete


def test_a_slow_poll_is_no_livelock_while_time_passes_for_somebody_who_waits():
    """What is waited for comes at 0.5 s; a poll each millisecond takes more steps than the bound."""

    def poll(until):
        done = conditions.Event()
        threads.Timer(until, done.set).start()
        while not done.wait(0.001):
            pass

    bounds = Bounds(max_steps=200)
    result = explore(lambda: poll(0.5), budget=5, bounds=bounds)
    assert result.failures == []
    assert result.certificate.cut
    assert first(lambda: poll(1e9), bounds=bounds).failure.kind == "livelock"


def test_thread_that_outlives_the_program_is_a_leak():
    def program():
        threads.Thread(target=conditions.Event().wait, name="forgotten").start()

    failure = first(program).failure
    assert failure.kind == "leaked-thread"
    assert "forgotten" in failure.detail


@pytest.mark.parametrize("strict", [False, True])
def test_daemon_alive_at_the_end(strict):
    def program():
        threads.Thread(target=lambda: clock.sleep(1e6), daemon=True, name="loop").start()

    result = explore(program, budget=20, bounds=Bounds(leaked_daemons_fail=strict))
    assert bool(result.failures) == strict


def test_finally_blocks_of_aborted_tasks_run():
    ended = []

    def program():
        def loop():
            try:
                conditions.Event().wait()
            finally:
                ended.append(1)

        threads.Thread(target=loop, daemon=True).start()
        clock.sleep(1)

    explore(program, budget=1, strategy="round_robin")
    assert ended


def test_task_that_swallows_aborts_is_left_and_named():
    def program():
        def stubborn():
            while True:
                try:
                    conditions.Event().wait()
                except BaseException:
                    continue

        threads.Thread(target=stubborn, daemon=True, name="stubborn").start()
        clock.sleep(1)

    result = explore(program, budget=1)
    assert any("stubborn" in line for line in result.certificate.uncontrolled)
    assert not result.complete


@pytest.mark.parametrize("carrier", ["greenlet", "thread"])
def test_call_that_blocks_in_c_is_named(carrier):
    def program():
        real_threading.Lock().acquire()
        lock = real_threading.Lock()
        lock.acquire()
        lock.acquire(timeout=30)  # the line that the report must show

    result = explore(program, budget=10, bounds=Bounds(carrier=carrier, blocked_s=0.3))
    assert result.stopped == "blocked"
    assert any("lock.acquire(timeout=30)" in line for line in result.certificate.uncontrolled)
    assert not result.failures


@pytest.mark.parametrize("carrier", ["greenlet", "thread"])
def test_replay_of_a_call_that_blocks_is_an_error_and_no_hang(carrier):
    def program():
        lock = real_threading.Lock()
        lock.acquire()
        lock.acquire(timeout=30)

    done = replay([], program, carrier=carrier, bounds=Bounds(blocked_s=0.3))
    assert done.outcome == "ERROR"
    assert "lock.acquire(timeout=30)" in done.run.uncontrolled[0]


def test_uncontrolled_thread_is_named():
    release = real_threading.Event()
    started = []

    def program():
        thread = real_threading.Thread(target=release.wait, name="stray")
        thread.start()
        started.append(thread)

    result = explore(program, budget=1)
    release.set()
    for thread in started:
        thread.join(10)
    assert any("'stray'" in line for line in result.certificate.uncontrolled)


def test_real_time_is_found_by_the_determinism_check():
    def program():
        turn = real_time.perf_counter_ns()
        for _ in range(turn % 7 + turn % 11):
            clock.sleep(0)

    def work():
        helpers = [threads.Thread(target=program) for _ in range(2)]
        for helper in helpers:
            helper.start()
        for helper in helpers:
            helper.join()

    results = [explore(work, budget=1, check_determinism=True).certificate.uncontrolled for _ in range(5)]
    assert any("nondeterminism" in line for lines in results for line in lines)


def test_two_failures_are_told_apart_and_counted():
    def program():
        turn = []

        def work(name):
            if not turn:
                clock.sleep(0)
                turn.append(name)
            else:
                raise ValueError(f"{turn[0]} was first, {len(turn)}")

        workers = [threads.Thread(target=work, args=(name,), name=name) for name in ("one", "two")]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    result = explore(program, strategy="random", budget=200, find_all=True)
    identities = sorted(found.failure.identity for found in result.failures)
    assert identities == ["ValueError: one was first, #", "ValueError: two was first, #"]
    assert sum(found.count for found in result.failures) > 2
