"""The classic bug set: each bug is found by the default portfolio, no correct program raises an alarm."""

import pathlib

import pytest

from omni_verify.engine.control import instrument, load_function
from omni_verify.engine.explore import Bounds, explore, replay

PROGRAMS = pathlib.Path(__file__).parent / "programs"
CASES = [
    *("lost_update", "lock_order", "missed_signal", "check_then_act", "aba", "stack", "bounded_buffer"),
    *("cleanup_vs_put", "inflight_put_vs_abort", "timed_wait", "adapter_thread"),
    *("reorder_3", "reorder_5", "reorder_10", "twostage_2", "twostage_10"),
]
KINDS = {
    "lock_order": ("deadlock",),
    "missed_signal": ("lost-wakeup",),
    "bounded_buffer": ("deadlock", "lost-wakeup"),
}
ACCESS = Bounds(granularity="access")


def load(case, variant):
    name, _, number = case.partition("_") if case.startswith(("reorder", "twostage")) else (case, "", "")
    return load_function(f"{PROGRAMS / name}.py:{variant}{'_' + number if number else ''}")


def test_the_set_is_complete():
    assert len(CASES) == 16


@pytest.mark.parametrize("case", CASES)
def test_portfolio_finds_the_bug_and_its_token_replays(case):
    program, module = load(case, "buggy")
    with instrument([module], "access") as missed:
        assert not missed
        result = explore(program, seed=1, budget=3000, bounds=ACCESS)
        assert result.failures, f"not found in {result.schedules} schedules"
        found = result.failures[0]
        assert found.failure.kind in KINDS.get(case, ("exception",))
        assert not result.certificate.uncontrolled
        for carrier in ("greenlet", "thread"):
            again = replay(found.token, program, carrier=carrier)
            assert again.outcome == "VIOLATED"
            assert again.run.trace == found.trace


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_portfolio_finds_the_bug_with_every_seed(case):
    program, module = load(case, "buggy")
    with instrument([module], "access"):
        for seed in range(10):
            result = explore(program, seed=seed, budget=3000, bounds=ACCESS, shrink=False)
            assert result.failures, f"seed {seed}: not found in {result.schedules} schedules"


@pytest.mark.parametrize("case", CASES)
def test_the_corrected_program_raises_no_alarm(case):
    program, module = load(case, "fixed")
    with instrument([module], "access"):
        result = explore(program, seed=2, budget=300, bounds=ACCESS)
        assert result.schedules == 300 or result.complete
        assert result.failures == []
        assert not result.certificate.uncontrolled


@pytest.mark.parametrize("name", ["counter3", "pipe"])
def test_controls_raise_no_alarm(name):
    program, module = load_function(f"{PROGRAMS / 'controls'}.py:{name}")
    with instrument([module], "access"):
        result = explore(program, seed=3, budget=2000, bounds=ACCESS)
    assert result.schedules == 2000
    assert result.failures == []


@pytest.mark.parametrize("case", ["lost_update", "lock_order", "aba", "timed_wait", "reorder_3"])
def test_minimised_story_is_short(case):
    program, module = load(case, "buggy")
    with instrument([module], "access"):
        found = explore(program, seed=4, budget=3000, bounds=ACCESS).failures[0]
    assert found.minimised is not None
    assert found.minimised.preemptions <= 2
    assert len(found.token) < 80


@pytest.mark.parametrize("case", ["lost_update", "lock_order"])
def test_exhaustive_and_dpor_prove_the_corrected_program(case):
    program, module = load(case, "fixed")
    bounds = Bounds(granularity="access", early_timers=0)
    with instrument([module], "access"):
        full = explore(program, strategy="exhaustive", budget=50_000, bounds=bounds)
        reduced = explore(program, strategy="dpor", budget=50_000, bounds=bounds)
    assert full.complete
    assert reduced.complete
    assert reduced.schedules < full.schedules
