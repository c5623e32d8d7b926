"""Verdict of a run of the kill matrix: held only when every planned cell ran and none has a problem."""

import pytest

from omni_verify.campaign.kills import result as kill_result
from omni_verify.campaign.kills.matrix import Cell
from omni_verify.campaign.kills.result import run_kills
from omni_verify.errors import OmniVerifyError, TargetUnusableError
from omni_verify.verdict import Verdict

PLAN = (("idle", ("stage0", "parent")), ("abort", ("all",)))


def cell(phase, victim, *problems, **fields):
    return Cell(phase=phase, victim=victim, pids=(7,), problems=problems, **{"served": True, **fields})


ALL = (cell("idle", "stage0"), cell("idle", "parent"), cell("abort", "all"))


def run(monkeypatch, *events):
    """Run with a matrix that gives these cells and raises these errors."""
    told = []

    def matrix(plan, emit):
        for event in events:
            if isinstance(event, BaseException):
                raise event
            emit(event)

    monkeypatch.setattr(kill_result, "kill_matrix", matrix)
    result = run_kills(PLAN, told.append)
    assert tuple(told) == result.cells
    return result


def test_all_cells_without_a_problem_are_held(monkeypatch):
    result = run(monkeypatch, *ALL)
    assert (result.verdict, result.reason, result.findings) == (Verdict.HELD, "", ())
    assert result.planned == ("idle/stage0", "idle/parent", "abort/all")


def test_a_problem_is_a_finding_of_its_cell(monkeypatch):
    result = run(monkeypatch, ALL[0], cell("idle", "parent", "still there: x"), ALL[2])
    assert result.verdict is Verdict.VIOLATED
    assert [(f.invariant, f.key, f.message) for f in result.findings] == [
        ("I53", "idle/parent", "still there: x")
    ]


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        (ALL[:2], "abort/all"),
        ((*ALL[:2], cell("abort", "all", served=False)), "abort/all"),
        ((*ALL[:1], OmniVerifyError("waited in vain for stage 1")), "waited in vain"),
        ((), "no check had anything"),
    ],
)
def test_what_did_not_run_is_never_held(monkeypatch, events, reason):
    result = run(monkeypatch, *events)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert reason in result.reason


def test_an_interruption_keeps_what_was_seen(monkeypatch):
    result = run(monkeypatch, *ALL, KeyboardInterrupt("SIGTERM"))
    assert (result.verdict, result.interrupted, len(result.cells)) == (Verdict.INCONCLUSIVE, "SIGTERM", 3)
    violated = run(monkeypatch, cell("idle", "stage0", "still there: x"), KeyboardInterrupt())
    assert (violated.verdict, violated.interrupted) == (Verdict.VIOLATED, "SIGINT")


def test_no_private_shared_memory_is_an_unusable_environment(monkeypatch):
    with pytest.raises(TargetUnusableError):
        run(monkeypatch, TargetUnusableError("no namespace"))
