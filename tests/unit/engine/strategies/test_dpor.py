"""DPOR reaches every outcome that brute force reaches, on generated programs."""

import importlib.util
import pathlib

import pytest

from omni_verify.engine.control import Scheduler
from omni_verify.engine.strategies import DPOR, Exhaustive

_path = pathlib.Path(__file__).parents[1] / "control" / "generated.py"
_spec = importlib.util.spec_from_file_location("engine_generated_dpor", _path)
generated = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(generated)


def outcomes(program, strategy, cap):
    """Every outcome and the number of executions; None when the search is too large."""
    scheduler = Scheduler(granularity="access", early_timers=0)
    seen, count = set(), 0
    while strategy.new_execution():
        run = scheduler.run(program, strategy)
        strategy.executed(run)
        count += 1
        if count > cap:
            return None, count
        if not run.abandoned:
            failed = run.failure.kind if run.failure else None
            seen.add((program._state() if failed else program.outcome, failed))
    return seen, count


def compare(seeds, cap):
    compared = full = reduced = 0
    for seed in seeds:
        kinds = generated.KINDS if seed % 2 else generated.SMALL
        shape = {"threads": 2, "length": 3} if seed % 3 == 0 else {"threads": 3, "length": 2}
        program = generated.Program(seed, kinds=kinds, **shape)
        expected, brute = outcomes(program, Exhaustive(bound=None), cap)
        if expected is None:
            continue
        got, count = outcomes(program, DPOR(), 10 * cap)
        assert got == expected, f"seed {seed}: {program.bodies}"
        compared, full, reduced = compared + 1, full + brute, reduced + count
    return compared, full, reduced


def test_dpor_agrees_with_brute_force():
    compared, full, reduced = compare(range(200), cap=300)
    assert compared > 80
    assert reduced < full / 5


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_dpor_agrees_with_brute_force_on_larger_programs():
    compared, _, _ = compare(range(10_000, 10_600), cap=5_000)
    assert compared > 400
