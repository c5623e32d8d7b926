"""Modelled primitives: what a program can see of them, alone and between tasks."""

import queue as real_queue
import threading as real_threading

import pytest

from omni_verify.engine.control import Mistake, Scheduler, clock, conditions, locks, queues, state, threads
from omni_verify.engine.explore import Bounds, explore
from omni_verify.engine.strategies import Replay


def run(program, tape=(), **bounds):
    follow = Replay(tape)
    follow.new_execution()
    return Scheduler(**bounds).run(program, follow, trace=True)


def every(program, **bounds):
    """Outcome of every schedule of a small program: returned values and failure kinds."""
    seen = set()

    def observed():
        seen.add(program())

    result = explore(
        observed, strategy="exhaustive", budget=20_000, find_all=True, shrink=False, bounds=Bounds(**bounds)
    )
    assert result.stopped == "exhausted"
    return seen, {found.failure.kind for found in result.failures}


def start(*bodies):
    workers = [threads.Thread(target=body) for body in bodies]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def test_primitives_work_without_a_scheduler():
    lock, condition, event, box = locks.RLock(), conditions.Condition(), conditions.Event(), queues.Queue()
    with lock, lock:
        pass
    with condition:
        condition.notify_all()
    event.set()
    assert event.wait(0.1)
    box.put(1)
    assert box.get() == 1
    with pytest.raises(real_queue.Empty):
        box.get_nowait()
    assert threads.current_thread() is real_threading.current_thread()


def test_module_level_lock_is_reset_between_executions():
    lock = locks.Lock()

    def program():
        lock.acquire()  # never released: the next execution must not see it held

    assert run(program).failure is None
    assert run(program).failure is None


def test_unlock_of_a_free_lock_raises_as_in_cpython():
    for make in (locks.Lock, locks.RLock, real_threading.Lock, real_threading.RLock):
        with pytest.raises(RuntimeError):
            make().release()
    with pytest.raises(ValueError, match="too many"):
        locks.BoundedSemaphore(1).release()


def test_mutual_exclusion_in_every_schedule():
    def program():
        lock, inside, most = locks.Lock(), [0], [0]

        def work():
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                clock.sleep(0)
                inside[0] -= 1

        start(work, work)
        return most[0]

    assert every(program) == ({1}, set())


def test_semaphore_lets_exactly_its_value_in():
    def program():
        room, inside, most = locks.Semaphore(2), [0], [0]

        def work():
            with room:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                clock.sleep(0)
                inside[0] -= 1

        start(work, work, work)
        seen.add(most[0])

    seen = set()
    result = explore(program, strategy="random", budget=300)
    assert not result.failures
    assert seen == {1, 2}


def test_condition_wakes_in_waiting_order():
    def program():
        condition, order, waiting = conditions.Condition(), [], []

        def wait(name):
            with condition:
                waiting.append(name)
                condition.wait()
                order.append(name)

        workers = [threads.Thread(target=wait, args=(name,)) for name in "ab"]
        for worker in workers:
            worker.start()
        while len(waiting) < 2:
            clock.sleep(0.1)
        first = waiting[0]
        with condition:
            condition.notify()
        while not order:
            clock.sleep(0.1)
        assert order == [first]
        with condition:
            condition.notify()
        for worker in workers:
            worker.join()

    result = explore(program, budget=500, seed=1)
    assert result.failures == []


def test_timed_wait_fires_when_nothing_else_can_run():
    def program():
        event = conditions.Event()
        before = clock.monotonic()
        assert not event.wait(5.0)
        assert 5.0 <= clock.monotonic() - before < 5.1

    record = run(program)
    assert record.failure is None
    assert record.timers_fired == 1
    assert record.virtual_s == pytest.approx(5.0, abs=0.01)


@pytest.mark.parametrize(("early", "outcomes"), [(0, {True}), (1, {True, False})])
def test_timer_fires_early_only_within_the_budget(early, outcomes):
    def program():
        event = conditions.Event()
        helper = threads.Thread(target=event.set)
        helper.start()
        return event.wait(1.0)

    seen, failures = every(program, early_timers=early)
    assert seen == outcomes
    assert not failures


def test_the_budget_of_early_timers_is_one_for_the_whole_execution():
    def program():
        one, two = conditions.Event(), conditions.Event()
        helper = threads.Thread(target=lambda: (one.set(), two.set()))
        helper.start()
        return one.wait(1.0), two.wait(1.0)

    seen, failures = every(program, early_timers=1)
    assert seen == {(True, True), (True, False), (False, True)}
    assert not failures


@pytest.mark.parametrize("make", [locks.Lock, locks.RLock])
def test_timed_acquire_gives_up(make):
    def program():
        lock = make()
        lock.acquire()
        got = []
        start(lambda: got.append(lock.acquire(timeout=1.0)))
        lock.release()
        return got[0]

    assert every(program) == ({False}, set())


def test_condition_wait_timeout_returns_false_and_takes_the_lock_back():
    def program():
        condition = conditions.Condition()
        with condition:
            result = condition.wait(0.5)
            assert condition._is_owned()
        return result

    assert every(program) == ({False}, set())


def test_event_set_releases_waiters_even_when_cleared_at_once():
    def program():
        event, passed, waiting = conditions.Event(), [], []

        def wait():
            waiting.append(1)
            event.wait()
            passed.append(1)

        worker = threads.Thread(target=wait)
        worker.start()
        while not waiting:
            clock.sleep(0.1)
        clock.sleep(0.1)  # nobody else can run: the worker waits now
        event.set()
        event.clear()
        worker.join()
        return len(passed)

    assert every(program, early_timers=0) == ({1}, set())


def test_barrier_of_two():
    def program():
        barrier, order = conditions.Barrier(2), []

        def work():
            order.append("in")
            barrier.wait()
            order.append("out")

        start(work, work)
        return tuple(order)

    seen, failures = every(program, granularity="connector")
    assert not failures
    assert all(order[:2] == ("in", "in") for order in seen)


@pytest.mark.parametrize("kind", [queues.Queue, queues.LifoQueue, queues.PriorityQueue])
def test_queues_agree_with_the_real_ones(kind):
    real = getattr(real_queue, kind.__name__)(maxsize=3)
    made = kind(maxsize=3)
    for box in (real, made):
        for number in (2, 1, 3):
            box.put(number)
        with pytest.raises(real_queue.Full):
            box.put_nowait(4)
    assert [made.get() for _ in range(3)] == [real.get() for _ in range(3)]


def test_queue_join_waits_for_task_done():
    def program():
        box, done = queues.Queue(), []

        def work():
            for _ in range(2):
                box.get()
                done.append(1)
                box.task_done()

        threads.Thread(target=work, daemon=True).start()
        box.put("x")
        box.put("y")
        box.join()
        return tuple(done)

    seen, failures = every(program)
    assert (seen, failures) == ({(1, 1)}, set())


def test_locals_idents_and_names_belong_to_tasks():
    def program():
        space, seen = threads.local(), []
        space.x = "main"

        def work():
            assert not hasattr(space, "x")
            space.x = threads.current_thread().name
            clock.sleep(0)
            seen.append((threads.get_ident(), space.x))

        start(work, work)
        assert len(set(seen)) == 2
        assert space.x == "main"
        assert threads.current_thread() is threads.main_thread()

    result = explore(program, budget=200)
    assert result.failures == []


def test_timer_runs_on_virtual_time_and_can_be_cancelled():
    def program():
        fired = []
        one, two = threads.Timer(10, fired.append, ["one"]), threads.Timer(20, fired.append, ["two"])
        one.start()
        two.start()
        clock.sleep(15)
        two.cancel()
        one.join()
        two.join()
        return tuple(fired)

    assert every(program, granularity="connector", early_timers=0)[0] == {("one",)}


def test_real_lock_in_a_modelled_condition_is_named():
    with pytest.raises(Mistake, match="lock"):
        conditions.Condition(real_threading.Lock())


def test_thread_started_outside_a_schedule_is_refused():
    with pytest.raises(Mistake, match="outside a schedule"):
        threads.Thread(target=lambda: None).start()


def test_no_state_is_left_behind():
    run(lambda: None)
    assert state.current is None
