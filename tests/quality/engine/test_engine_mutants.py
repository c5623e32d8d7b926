"""Seeded bugs of the engine itself: each is noticed by a named test of the engine.

A mutant replaces one function; the test that must notice it is then called, and has to fail.
"""

import importlib.util
import pathlib
import queue

import pytest

from omni_verify.engine.control import agenda, conditions, execution, locks, queues, state, turns
from omni_verify.engine.control.publish import publish
from omni_verify.engine.strategies import dpor
from omni_verify.engine.strategies.replay import Replay

UNIT = pathlib.Path(__file__).parents[2] / "unit" / "engine"


def load(path):
    spec = importlib.util.spec_from_file_location(f"engine_mutants_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def engine_tests():
    load(UNIT / "control" / "conftest.py")  # makes the generated programs importable
    found = {}
    for path in [*(UNIT / "control").glob("test_*.py"), *(UNIT / "strategies").glob("test_*.py")]:
        module = load(path)
        found.update({name: test for name, test in vars(module).items() if name.startswith("test_")})
    return found


def drop_a_wakeup(condition, n=1):
    publish("notify", condition)


def notify_the_youngest(condition, n=1):
    if publish("notify", condition) is not None:
        for _ in range(min(n, len(condition.waiters))):
            waiter = condition.waiters.pop()
            waiter.waiting = None
            condition._reacquire(waiter)


def one_too_many(semaphore):
    semaphore.value = semaphore.initial + 1
    semaphore.pend = []


def clear_late(event):
    task = publish("clear", event)
    task.sched.spawn("late", lambda: setattr(event, "flag", False))


def count_two(box):
    with box.mutex:
        if box.unfinished_tasks <= 0:
            raise ValueError
        box.unfinished_tasks = max(0, box.unfinished_tasks - 2)
        if not box.unfinished_tasks:
            box._finished.notify_all()


def spend_nothing(board, waiter):
    board.early_fired += 1
    board._advance(waiter.deadline)
    board._respecial()


def read_the_next_code(replay, n, what):
    replay.at += 1
    return replay.tape[replay.at] if replay.at < len(replay.tape) and replay.tape[replay.at] < n else 0


def wake_by_flag(event, timeout=None):
    if not event.flag:
        task = state.current
        task.kind, task.obj, task.key, task.site = "wait", event, None, 0
        task.waiting = event
        event.waiters.append(task)
        task.sched.block(task)
        task.waiting = None
    return event.flag


def get_the_newest(box):
    if not box.queue:
        raise queue.Empty
    return box.queue.pop()


def forget_waiters(lock):
    task = publish("release", lock)
    if lock.owner is None:
        raise RuntimeError
    lock.owner = None
    assert task is not None


def ignore_owner(lock):
    publish("acquire", lock)
    lock.owner = state.current


# name, what is replaced, by what, the test that notices it and its arguments
MUTANTS = [
    (
        "drop a wake-up",
        (conditions.Condition, "notify"),
        drop_a_wakeup,
        "condition_wakes_in_waiting_order",
        (),
    ),
    (
        "unfair notify",
        (conditions.Condition, "notify"),
        notify_the_youngest,
        "condition_wakes_in_waiting_order",
        (),
    ),
    (
        "lost timer",
        (agenda.Agenda, "_add_timed"),
        lambda board, waiter: None,
        "timed_wait_fires_when_nothing_else_can_run",
        (),
    ),
    (
        "semaphore off by one",
        (locks.Semaphore, "reset"),
        one_too_many,
        "semaphore_lets_exactly_its_value_in",
        (),
    ),
    (
        "RLock not reentrant",
        (locks.RLock, "acquire"),
        locks.Lock.acquire,
        "model_passes_cpythons_test",
        ("greenlet", "RLockTests", "test_reacquire"),
    ),
    (
        "event cleared late",
        (conditions.Event, "clear"),
        clear_late,
        "model_passes_cpythons_test",
        ("greenlet", "EventTests", "test_is_set"),
    ),
    (
        "event wait that looks at the flag again",
        (conditions.Event, "wait"),
        wake_by_flag,
        "model_passes_cpythons_test",
        ("greenlet", "EventTests", "test_set_and_clear"),
    ),
    ("task_done miscounts", (queues.Queue, "task_done"), count_two, "queue_join_waits_for_task_done", ()),
    (
        "queue gives the newest",
        (queues.Queue, "_get"),
        get_the_newest,
        "queues_agree_with_the_real_ones",
        (queues.Queue,),
    ),
    (
        "release wakes nobody",
        (locks.Lock, "release"),
        forget_waiters,
        "mutual_exclusion_in_every_schedule",
        (),
    ),
    (
        "two owners of a lock",
        (locks.Lock, "__enter__"),
        ignore_owner,
        "mutual_exclusion_in_every_schedule",
        (),
    ),
    (
        "deadlock not detected",
        (turns, "explain_block"),
        lambda board, **_: None,
        "self_deadlock_needs_one_schedule",
        (),
    ),
    (
        "early timers without a budget",
        (agenda.Agenda, "_fire_early"),
        spend_nothing,
        "the_budget_of_early_timers_is_one_for_the_whole_execution",
        (),
    ),
    (
        "sleep sets ignore dependence",
        (dpor, "_conflict"),
        lambda one, two: False,
        "dpor_agrees_with_brute_force",
        (),
    ),
    (
        "replay off by one",
        (Replay, "_next"),
        read_the_next_code,
        "run_equals_run_equals_replay_on_both_carriers",
        ("access",),
    ),
    (
        "fair choice starves",
        (execution, "fair_pick"),
        lambda options, current, ready: 0,
        "livelock_is_judged_under_a_fair_choice",
        (),
    ),
]


@pytest.mark.parametrize(
    ("place", "mutant", "test", "arguments"),
    [pytest.param(*rest, id=name.replace(" ", "-")) for name, *rest in MUTANTS],
)
def test_mutant_is_noticed(place, mutant, test, arguments, engine_tests, monkeypatch):
    notice = engine_tests["test_" + test]
    if test == "model_passes_cpythons_test":
        carrier, case, name = arguments
        keywords = {"carrier": carrier, "case": case, "name": name, "monkeypatch": monkeypatch}
    else:
        names = notice.__code__.co_varnames[: notice.__code__.co_argcount]
        keywords = dict(zip(names, arguments, strict=True))
    owner, attribute = place
    monkeypatch.setattr(owner, attribute, mutant)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        notice(**keywords)
    state.current = None
