"""Run == run == replay, on both carriers, for generated programs."""

import pytest
from engine_generated import Program

from omni_verify.engine.control import Scheduler
from omni_verify.engine.strategies import Replay, make_strategy


def run(scheduler, program, strategy):
    assert strategy.new_execution()
    record = scheduler.run(program, strategy)
    strategy.executed(record)
    return record


def summary(record, program):
    return record.tape, record.steps, record.failure and record.failure.identity, program.outcome


def check_program(seed, schedulers, names=("random", "pct", "pos", "surw")):
    program = Program(seed, length=4)
    strategy = names[seed % len(names)]
    first = summary(run(schedulers[0], program, make_strategy(strategy, seed)), program)
    second = summary(run(schedulers[0], program, make_strategy(strategy, seed)), program)
    assert first == second
    for scheduler in schedulers:
        follow = Replay(first[0])
        assert summary(run(scheduler, program, follow), program) == first
        assert follow.diverged is None


@pytest.mark.parametrize("granularity", ["sync", "access"])
def test_run_equals_run_equals_replay_on_both_carriers(granularity):
    schedulers = [Scheduler(name, granularity=granularity) for name in ("greenlet", "thread")]
    for seed in range(300):
        check_program(seed, schedulers)
    for scheduler in schedulers:
        scheduler.close()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_ten_thousand_generated_programs():
    schedulers = [Scheduler(name, granularity="access") for name in ("greenlet", "thread")]
    for seed in range(10_000):
        check_program(seed, schedulers)
    for scheduler in schedulers:
        scheduler.close()


def test_a_traced_run_takes_the_same_choices():
    scheduler = Scheduler(granularity="access")
    for seed in range(100):
        program = Program(seed)
        plain = run(scheduler, program, make_strategy("random", seed))
        strategy = make_strategy("random", seed)
        strategy.new_execution()
        traced = scheduler.run(program, strategy, trace=True)
        assert traced.tape == plain.tape
        assert traced.trace


def test_seeds_differ():
    scheduler = Scheduler(granularity="access")
    program = Program(1, threads=3, length=4)
    tapes = {tuple(run(scheduler, program, make_strategy("random", seed)).tape) for seed in range(20)}
    assert len(tapes) > 5


def test_ready_set_equals_the_test_on_every_record():
    """The incrementally kept ready set is what recomputing enabledness from the records gives."""
    scheduler = Scheduler(granularity="access", early_timers=0)

    class Checking(Replay):
        def pick(self, options, current, ready):
            for task in scheduler.tasks:
                if task.done:
                    assert task not in scheduler.ready
                elif task.kind in ("acquire", "reacquire") and hasattr(task.obj, "owner"):
                    free = task.obj.owner is None or task.timed_out
                    assert (task in scheduler.ready) == free, task
                elif task.kind == "get":
                    assert (task in scheduler.ready) == bool(task.obj.queue)
            return inner.pick(options, current, ready)

        def choose(self, n, what):
            return inner.choose(n, what)

    for seed in range(150):
        inner = make_strategy("random", seed)
        inner.new_execution()
        scheduler.run(Program(seed, length=4), Checking([]))
