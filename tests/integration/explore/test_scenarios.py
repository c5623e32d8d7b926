"""Scenarios under a strategy: the reference holds, a seeded bug is found, kept and replayed."""

import dataclasses
import re
from pathlib import Path

import msgspec
import pytest

from omni_verify.campaign.explore.promote import promote
from omni_verify.campaign.explore.replay import replay
from omni_verify.campaign.explore.search import explore
from omni_verify.cli.main import main
from omni_verify.engine import token
from omni_verify.errors import UsageError
from omni_verify.verdict import Verdict

BROKEN = "reference@W04"
"""Cleans up by id: what ends an old request unregisters the new one."""


@pytest.mark.parametrize(
    "program",
    ["abort/put-in-flight", "workloads/one-key", "workloads/end-and-tick", "admission/three-queued"],
)
def test_the_reference_holds_in_every_order_tried(program):
    run = explore(program, budget=25, seed=3)
    assert run.verdict is Verdict.HELD, run
    assert run.programs[0].schedules == 25
    assert not run.programs[0].uncontrolled


def test_the_same_seed_gives_the_same_traces_in_another_process():
    runs = [explore("workloads/one-key", budget=30, seed=seed).programs[0] for seed in (5, 5, 6)]
    decisions = [run.decisions for run in runs]
    assert decisions[0] == decisions[1] != decisions[2]


def test_the_number_of_workers_changes_no_trace(monkeypatch):
    monkeypatch.setattr("omni_verify.campaign.explore.exploration.SHARD_SCHEDULES", 4)
    runs = [
        explore(
            "workloads/t*", "reference@W02", budget=40, seed=5, workers=n, find_all=True, shrink_reruns=40
        )
        for n in (1, 2)
    ]
    timeless = [[msgspec.structs.replace(p, duration_s=0.0) for p in run.programs] for run in runs]
    assert timeless[0] == timeless[1]
    assert runs[0].failures == runs[1].failures  # stories and tokens too
    assert [f.invariant for f in runs[0].failures] == ["I44b"]
    digests = {replay(f.token, target="reference@W02").answer.digest for run in runs for f in run.failures}
    assert len(digests) == 1


def test_what_is_left_out_is_told_with_its_reason():
    run = explore("get/*", budget=1)
    reasons = {p.id: p.reason for p in run.programs if p.verdict is Verdict.NOT_APPLICABLE}
    assert "real waits" in reasons["get/busy-lock-returns"]
    assert run.verdict is Verdict.HELD


@pytest.mark.parametrize(
    ("target", "program", "invariant"),
    [
        ("reference@M45", "abort/put-raises-afterwards", "I31"),
        ("reference@W02", "workloads/terminal-and-ticks", "I44b"),
        ("reference@W03a", "workloads/two-readers", "I19"),
    ],
)
def test_a_seeded_race_is_found_within_the_default_budget(target, program, invariant):
    run = explore(program, target, shrink_reruns=0)
    (found,) = run.failures
    assert (found.invariant, found.reproduced) == (invariant, 10)


def test_a_seeded_bug_is_found_replayed_on_both_carriers_and_gone_in_the_reference(capfd):
    run = explore("workloads/end-and-reuse", BROKEN, budget=20)
    (found,) = run.failures
    assert (run.verdict, found.invariant, found.reproduced) == (Verdict.VIOLATED, "I38b", 10)
    assert 0 < len(found.story) <= 12
    answers = [replay(found.token, target=BROKEN, times=2, carrier=c) for c in ("greenlet", "thread")]
    assert [a.outcome for a in answers] == ["VIOLATED", "VIOLATED"]
    assert answers[0].answer.digest == answers[1].answer.digest
    assert replay(found.token).outcome in ("FIXED", "DIVERGED")
    with pytest.raises(UsageError, match="another program"):
        replay(found.token, target="vllm-omni==0.30.0")
    capfd.readouterr()


def test_a_found_schedule_becomes_a_scenario_that_check_runs(tmp_path, capfd):
    run = explore("workloads/end-and-reuse", BROKEN, budget=20)
    kept = promote(run.failures[0].token, target=BROKEN)
    assert all(re.fullmatch(r"\S+ < \S+", chain) for chain in kept.chains)
    path = tmp_path / "kept.py"
    Path(path).write_text(kept.text)
    code = main(
        ["check", "--scenarios", str(path), "--select", kept.id, "--target", BROKEN, "--no-store", "--quiet"]
    )
    assert (code, "VIOLATED" in capfd.readouterr().out) == (1, True)


def test_a_schedule_that_fits_no_more_is_replayed_by_names_and_only_the_same_failure_counts(tmp_path):
    found = explore("workloads/terminal-and-ticks", "reference@W02", budget=40, seed=6, shrink_reruns=40)
    record = found.failures[0]
    schedule = token.decode(record.token)
    misfit = dataclasses.replace(schedule, arity=tuple(count + 1 for count in schedule.arity))
    outcomes = {}
    for what, failure in (("the same", schedule.failure), ("another", schedule.failure ^ 1)):
        file = tmp_path / f"{what}.json"
        changed = token.encode(dataclasses.replace(misfit, failure=failure))
        file.write_bytes(msgspec.json.encode(msgspec.structs.replace(record, token=changed)))
        report = replay(str(file), target="reference@W02")
        outcomes[what] = report.outcome, report.by_name
    assert outcomes == {"the same": ("VIOLATED", True), "another": ("DIVERGED", False)}
