"""What each strategy promises, checked by counting."""

import collections
import itertools
import math

import pytest

from omni_verify.engine import accesses
from omni_verify.engine.control import Scheduler, state, threads
from omni_verify.engine.strategies import (
    DPOR,
    PCT,
    STRATEGIES,
    SURW,
    Exhaustive,
    Portfolio,
    RandomWalk,
    Replay,
    RoundRobin,
    make_strategy,
)
from omni_verify.errors import UsageError


class Box:
    n = 0


def logs(*lengths, order, site=0):
    """A program in which thread i performs ``lengths[i]`` operations and notes each in ``order``.

    With a ``site`` they are shared accesses of a rewritten module, else operations of a primitive.
    """

    def program():
        order.clear()

        def work(me, length):
            for _ in range(length):
                accesses.store(me, Box, "n", site)
                order.append(me)

        # Not joined: the program body ends at once and takes no part in the decisions.
        for item in enumerate(lengths):
            threads.Thread(target=work, args=item).start()

    return program


def executions(strategy, program, count):
    scheduler = Scheduler(granularity="access", early_timers=0)
    for _ in range(count):
        if not strategy.new_execution():
            return
        run = scheduler.run(program, strategy)
        strategy.executed(run)
        assert run.failure is None
        yield run


@pytest.mark.parametrize(
    ("opening", "tape"), [(None, [0, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1]), (4, [0, 0, 1, *[0] * 6])]
)
def test_round_robin_alternates_and_lets_each_go_on_after_its_opening(opening, tape):
    strategy = RoundRobin(quantum=2, opening=opening)
    assert [run.tape for run in executions(strategy, logs(6, 6, order=[]), 1)] == [tape]


@pytest.mark.parametrize("lengths", [(1, 1), (2, 2), (1, 3), (1, 1, 2)])
def test_exhaustive_is_brute_force(lengths):
    order = []
    # One operation more for each thread: its start is a decision as well.
    whole = [i for i, length in enumerate(lengths) for _ in range(length + 1)]
    expected = set(itertools.permutations(whole))
    strategy = Exhaustive(bound=None)
    seen, tapes = set(), []
    for run in executions(strategy, logs(*lengths, order=order), 100_000):
        seen.add(tuple(order))
        tapes.append(tuple(run.tape))
    assert len(tapes) == len(set(tapes)) == len(expected)
    assert seen == set(itertools.permutations([i for i, length in enumerate(lengths) for _ in range(length)]))
    assert strategy.completeness() == "all schedules"


def test_bounded_exhaustive_says_what_it_left_out():
    strategy = Exhaustive(bound=1)
    for _ in executions(strategy, logs(2, 2, order=[]), 10_000):
        assert strategy.completeness() == ""
    assert strategy.completeness() == "all schedules with at most 1 preemptions"


def test_preemption_bound_holds():
    order = []
    scheduler = Scheduler(granularity="access")
    strategy = Exhaustive(bound=1)
    while strategy.new_execution():
        run = scheduler.run(logs(2, 2, order=order), strategy)
        follow = Replay(run.tape)
        follow.new_execution()
        scheduler.run(logs(2, 2, order=order), follow)
        assert follow.preemptions <= 1


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_pct_meets_its_bound(depth):
    """A chain of ``depth - 1`` switches is hit at least as often as the theorem says."""
    order, runs = [], 1500
    program = logs(3, 3, order=order)
    target = {1: [1, 1, 1, 0, 0, 0], 2: [0, 1, 1, 1, 0, 0], 3: [0, 1, 0, 0, 1, 1]}[depth]
    strategy = PCT(5, depth=depth)
    hits, k = 0, 1
    for run in executions(strategy, program, runs):
        hits += order == target
        k = max(k, run.decisions)
    bound = 1 / (2 * k ** (depth - 1))
    deviation = math.sqrt(bound / runs)
    assert hits / runs >= bound - 3 * deviation


def test_surw_is_uniform():
    order, runs = [], 3000
    strategy = SURW(11)
    program = logs(2, 2, order=order)
    list(executions(strategy, program, 50))  # learns the lengths
    counts = collections.Counter(tuple(run.tape) for run in executions(strategy, program, runs))
    cells = math.comb(6, 3)  # three decisions a thread, its start included
    expected = runs / cells
    assert len(counts) == cells
    chi2 = sum((n - expected) ** 2 / expected for n in counts.values())
    assert chi2 < 43.8  # 19 degrees of freedom, p = 0.001


def test_random_walk_favours_late_ends():
    """The reason for SURW: a plain walk is not uniform over interleavings."""
    order = []
    program = logs(1, 4, order=order)
    counts = collections.Counter(tuple(run.tape) for run in executions(RandomWalk(3), program, 2000))
    assert max(counts.values()) > 3 * min(counts.values())


def test_dpor_runs_independent_operations_once():
    def program():
        boxes = [type("B", (), {"n": 0})() for _ in range(3)]
        workers = [threads.Thread(target=accesses.store, args=(1, box, "n", 0)) for box in boxes]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    strategy = DPOR()
    assert len(list(executions(strategy, program, 1000))) == 1
    assert "every class" in strategy.completeness()


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_same_seed_same_executions(name):
    program = logs(2, 2, order=[])
    one, two = ([tuple(r.tape) for r in executions(make_strategy(name, 7), program, 30)] for _ in range(2))
    assert one == two


def test_portfolio_ends_when_everything_was_tried():
    strategy = Portfolio(1)
    assert len(list(executions(strategy, logs(1, 1, order=[]), 10_000))) < 10_000
    assert strategy.completeness() == "all schedules"


def test_portfolio_begins_with_alternation_and_then_without_preemption():
    order = []
    orders = [tuple(order) for _ in executions(Portfolio(7), logs(8, 8, order=order), 3)]
    switches = [sum(a != b for a, b in itertools.pairwise(order)) for order in orders]
    assert 3 <= switches[0] < switches[1]
    assert orders[2] == (0,) * 8 + (1,) * 8


def test_coarse_switches_between_operations_and_never_at_an_access():
    order, orders = [], collections.Counter()
    for _ in executions(make_strategy("coarse", 3), logs(3, 3, 3, order=order, site=1), 60):
        orders[tuple(order)] += 1
    assert set(orders) == {(a,) * 3 + (b,) * 3 + (c,) * 3 for a, b, c in itertools.permutations(range(3))}
    mixed = sum(
        sorted(order) != order for _ in executions(make_strategy("coarse", 3), logs(3, 3, order=order), 40)
    )
    assert mixed > 10


def test_data_choices_share_the_sequence():
    seen = set()

    def program():
        sched = state.current.sched
        seen.add((sched.choose(2, "first"), sched.choose(3, "second")))

    runs = list(executions(Exhaustive(bound=0), program, 100))
    assert len(runs) == 6
    assert len(seen) == 6


def test_unknown_strategy_suggests_the_nearest():
    with pytest.raises(UsageError, match="Did you mean 'random'"):
        make_strategy("randon")
