"""Scenarios of the catalogue under nemeses: scripted and explored."""

import pytest

from omni_verify.campaign.check import check
from omni_verify.campaign.explore.promote import promote
from omni_verify.campaign.explore.replay import replay
from omni_verify.campaign.explore.search import explore
from omni_verify.campaign.known_failures import KnownFailures
from omni_verify.errors import UsageError
from omni_verify.settings import Settings
from omni_verify.verdict import Verdict

SHORT = Settings(gate_s=4.0, wait_s=4.0)
SOME = ["abort/put-in-flight", "reuse/old-chunks-unread", "workloads/end-and-reuse", "workloads/one-key"]


def besieged(target, select, *nemeses):
    run = check(target, select, nemeses=nemeses, settings=SHORT)
    return {case.id: case for case in run.cases}


@pytest.mark.parametrize("nemesis", ["put-false", "get-corrupt", "enospc", "put-raises-late"])
def test_the_reference_keeps_its_contracts_whatever_strikes(nemesis):
    cases = besieged("reference", SOME, nemesis)
    verdicts = {case.verdict for case in cases.values()}
    assert verdicts <= {Verdict.HELD, Verdict.NOT_APPLICABLE}
    assert Verdict.HELD in verdicts


def test_a_bug_that_only_a_nemesis_reveals_is_violated():
    case = "workloads/end-and-reuse"
    assert besieged("reference@W08", [case])[case].verdict is Verdict.HELD
    struck = besieged("reference@W08", [case], "get-corrupt")[case]
    assert struck.verdict is Verdict.VIOLATED
    assert {f.invariant for f in struck.findings} <= set(struck.invariants)


@pytest.mark.parametrize(
    ("case", "nemesis", "why"),
    [
        ("kill/sender", "put-false", "processes run apart"),
        ("parking/order-kept", "put-false", "without faults"),
        ("workloads/one-key", "processor-raises", "a chance to strike"),
    ],
)
def test_a_case_that_says_nothing_under_a_nemesis_does_not_apply(case, nemesis, why):
    found = besieged("reference", [case], nemesis)[case]
    assert found.verdict is Verdict.NOT_APPLICABLE
    assert why in found.reason


def test_known_failures_are_those_of_runs_without_nemeses():
    with pytest.raises(UsageError, match="without nemeses"):
        check("reference", SOME, nemeses=["put-false"], known=KnownFailures([]))


@pytest.mark.parametrize("run", [check, lambda target, select, nemeses: explore(select[0], nemeses=nemeses)])
def test_an_unknown_nemesis_is_refused_with_the_nearest(run):
    with pytest.raises(UsageError, match="put-false"):
        run("reference", SOME, nemeses=["put-fals"])


def test_explored_scenarios_hold_on_the_reference_when_puts_fail():
    run = explore("abort/put-in-flight", nemeses=["put-false", "put-raises-late", "enospc"], budget=40)
    assert (run.verdict, run.failures) == (Verdict.HELD, ())
    assert run.programs[0].id == "abort/put-in-flight+put-false,put-raises-late,enospc"


def test_a_schedule_with_strikes_replays_by_its_token():
    run = explore("abort/put-in-flight", "reference@W11", nemeses=["reap-raises"], budget=100)
    failure = run.failures[0]
    assert (failure.reproduced, failure.replays) == (10, 10)
    assert failure.token.startswith("ovn1.reap-raises.")
    again = replay(failure.token, target="reference@W11", times=3)
    assert (again.outcome, again.answer.digests) == ("VIOLATED", 1)
    assert replay(failure.token).outcome in ("FIXED", "DIVERGED")
    with pytest.raises(UsageError, match="nemeses"):
        promote(failure.token, target="reference@W11")


@pytest.mark.parametrize("token", ["ovn1.put-false.x", "ovn1.flood.1.2", "ovn1.put-false.zz.zz"])
def test_a_damaged_token_is_refused(token):
    with pytest.raises(UsageError):
        replay(token)
