"""Fuzzing end to end: the sound target holds, a broken one is found, tokens replay, runs resume."""

import msgspec
import pytest

from omni_verify.campaign.explore.replay import minimize, replay
from omni_verify.campaign.fuzz import token as fuzz_token
from omni_verify.campaign.fuzz.fuzzing import FuzzReport
from omni_verify.campaign.fuzz.run import fuzz
from omni_verify.errors import UsageError
from omni_verify.harness.fuzz.program import Program
from omni_verify.harness.fuzz.rules import Rules
from omni_verify.verdict import Verdict


def test_the_reference_holds_with_every_nemesis():
    report = fuzz(budget=40, seed=11)
    assert (report.verdict, report.failures, report.errors) == (Verdict.HELD, (), ())
    assert report.runs == 40
    assert report.coverage.nemeses
    assert "put.enter" in report.coverage.points


def test_the_same_seed_and_budget_give_the_same_run():
    first, second = (fuzz(budget=12, seed=3) for _ in range(2))
    assert first.coverage == second.coverage
    assert first.gaps == second.gaps


@pytest.fixture(scope="module")
def late():
    """A run that finds late outputs taken."""
    return fuzz("reference@W25", budget=60, seed=1, nemeses=["none"])


def test_a_seeded_bug_is_found_shrunk_and_replayed(late):
    report = late
    assert report.verdict is Verdict.VIOLATED
    failure = next(f for f in report.failures if f.identity.startswith("I32: a late output"))
    assert "late" in failure.traits
    assert len(failure.program.split(") ")) <= 5
    assert failure.record.reproduced == failure.record.replays == 10
    again = replay(failure.record.token, target="reference@W25", times=3)
    assert (again.outcome, again.answer.digests) == ("VIOLATED", 1)
    assert replay(failure.record.token).outcome in ("FIXED", "DIVERGED")
    program, _ = fuzz_token.split(failure.record.token)
    assert Rules.legal(Program.decode(program.removeprefix("fuzz:")).ops)


def test_a_token_of_a_fuzzed_run_can_be_minimised(late):
    token = next(f.record.token for f in late.failures if f.identity.startswith("I32: a late output"))
    small = minimize(token, target="reference@W25")
    assert small is not None
    assert (small.invariant, small.reproduced, small.replays) == ("I32", 10, 10)
    assert fuzz_token.split(small.token)[0] == fuzz_token.split(token)[0]
    assert replay(small.token, target="reference@W25").outcome == "VIOLATED"
    assert minimize(token) is None


def test_a_run_goes_on_where_it_was(tmp_path):
    state = tmp_path / "state.json"
    first = fuzz(budget=8, seed=5, resume=state)
    second = fuzz(budget=8, seed=5, resume=state)
    assert (second.runs, second.batches, second.sessions) == (16, (0, 1), 2)
    assert second.operations > first.operations > first.runs
    assert second.coverage.runs > first.coverage.runs
    assert msgspec.json.decode(state.read_bytes(), type=FuzzReport).runs == 16
    with pytest.raises(UsageError, match="another run"):
        fuzz(budget=8, seed=6, resume=state)
    with pytest.raises(UsageError, match="nemeses"):
        fuzz(budget=8, seed=5, nemeses=["put-false"], resume=state)


@pytest.mark.parametrize("how", [{"budget": 0}, {"workers": 0}, {"nemeses": ["flood"]}])
def test_a_wrong_option_is_refused(how):
    with pytest.raises(UsageError):
        fuzz(**{"budget": 1, **how})


@pytest.mark.parametrize("token", ["ovf1.x", "ovf1.x.y.z", "ovf1.eJw.1.2"])
def test_a_damaged_token_is_refused(token):
    with pytest.raises(UsageError):
        replay(token)
