"""CPython's own lock tests, run on the modelled primitives under the controlled scheduler.

The test module of the standard library is loaded privately and put under control like any target: its threads
become tasks and its sleeps virtual. So "sleep until the others are blocked" is exact, and a test must pass
under every order that the strategies below choose.
"""

import contextlib
import importlib.util
import types
import unittest

import pytest

from omni_verify.engine.control import Scheduler, clock, conditions, instrument, locks, state, threads
from omni_verify.engine.strategies import Replay, make_strategy

# Test -> why it says nothing about a model.
LEFT_OUT = {
    "test_at_fork_reinit": "forks, or reaches for the C lock inside",
    "test_thread_leak": "counts OS threads",
    "test_repr": "expects the text of CPython's own classes",
    "test_locked_repr": "expects the text of CPython's own classes",
}
CASES = {
    "LockTests": {"locktype": locks.Lock},
    "RLockTests": {"locktype": locks.RLock},
    "EventTests": {"eventtype": conditions.Event},
    "ConditionTests": {"condtype": conditions.Condition},
    "SemaphoreTests": {"semtype": locks.Semaphore},
    "BoundedSemaphoreTests": {"semtype": locks.BoundedSemaphore},
    "BarrierTests": {"barriertype": conditions.Barrier},
}
SEEDS = 8


def lock_tests():
    try:
        spec = importlib.util.find_spec("test.lock_tests")
    except ImportError:
        spec = None
    if spec is None:
        return None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def retry(timeout, *args, **kwargs):
    """`test.support.sleeping_retry` on virtual time."""
    deadline = clock.monotonic() + timeout
    while clock.monotonic() < deadline:
        yield
        clock.sleep(0.01)
    raise AssertionError(f"no success within {timeout} virtual seconds")


def start_new_thread(function, args, kwargs=None):
    thread = threads.Thread(target=function, args=args, kwargs=kwargs or {})
    thread.start()
    return thread.ident


MODULE = lock_tests()
if MODULE is None:
    pytest.skip("the standard library's test package is not installed", allow_module_level=True)
HELPER = types.SimpleNamespace(
    threading_setup=lambda: (),
    threading_cleanup=lambda *_: None,
    wait_threads_exit=lambda *_, **__: contextlib.nullcontext(),
    join_thread=lambda thread, timeout=None: thread.join(timeout),
)
SUPPORT = types.SimpleNamespace(
    sleeping_retry=retry,
    SHORT_TIMEOUT=30.0,
    LONG_TIMEOUT=300.0,
    reap_children=lambda: None,
    gc_collect=lambda: None,
    threading_helper=HELPER,
)


def parameters():
    for case in CASES:
        for name in unittest.TestLoader().getTestCaseNames(getattr(MODULE, case)):
            marks = [pytest.mark.skip(reason=LEFT_OUT[name])] if name in LEFT_OUT else []
            yield pytest.param(case, name, id=f"{case}.{name}", marks=marks)


@pytest.mark.parametrize(("case", "name"), list(parameters()))
@pytest.mark.parametrize("carrier", ["greenlet", "thread"])
def test_model_passes_cpythons_test(case, name, carrier, monkeypatch):
    made = {key: staticmethod(value) for key, value in CASES[case].items()}
    kind = type(case, (getattr(MODULE, case),), made)
    monkeypatch.setattr(MODULE, "support", SUPPORT)
    monkeypatch.setattr(MODULE, "threading_helper", HELPER)
    monkeypatch.setattr(MODULE, "start_new_thread", start_new_thread)
    scheduler = Scheduler(carrier, early_timers=0)
    strategies = [Replay([]), *(make_strategy("random", seed) for seed in range(SEEDS))]
    with instrument([MODULE]):
        for strategy in strategies:
            strategy.new_execution()
            run = scheduler.run(kind(name).debug, strategy, trace=strategy is strategies[0], timeout=20)
            assert run.failure is None, f"{run.failure.message}\n{run.failure.detail}"
            assert not run.leftover
    scheduler.close()
    assert state.current is None
