"""Shards: cut by seed stream, merged in their order, judged by evidence."""

import msgspec
import pytest

from omni_verify.campaign.explore.checkpoint import Checkpoint
from omni_verify.campaign.explore.exploration import (
    SHARD_SCHEDULES,
    FailureRecord,
    Plan,
    ShardResult,
    shards_of,
)
from omni_verify.campaign.explore.merge import distinct, merged
from omni_verify.errors import UsageError
from omni_verify.verdict import Verdict

PLAN = Plan(budget=2 * SHARD_SCHEDULES + 1, seed=7)


def failure(identity: str = "I31:left", execution: int = 3, preemptions: int = 2, program: str = "a/b"):
    return FailureRecord(
        identity=identity,
        kind="contract",
        invariant="I31",
        message="left",
        program=program,
        programs=(program,),
        execution=execution,
        preemptions=preemptions,
        token="ov1.0.x",
    )


def shard(number: int, schedules: int = SHARD_SCHEDULES, **fields) -> ShardResult:
    return ShardResult(program="a/b", number=number, schedules=schedules, stopped="budget", **fields)


ALL = [shard(0), shard(1), shard(2, 1)]


def test_shards_cover_the_budget_with_their_own_seeds():
    shards = list(shards_of("a/b", PLAN))
    assert [s.budget for s in shards] == [SHARD_SCHEDULES, SHARD_SCHEDULES, 1]
    assert shards[0].seed == 7
    assert len({s.seed for s in shards}) == 3


def test_a_systematic_strategy_is_not_cut():
    assert [s.budget for s in shards_of("a/b", Plan(budget=9999, strategy="exhaustive2"))] == [9999]


def test_a_full_search_without_failure_is_held():
    record, found = merged("a/b", PLAN, ALL, "", timed=False)
    assert (record.verdict, record.schedules, found) == (Verdict.HELD, PLAN.budget, [])


@pytest.mark.parametrize(
    "shards",
    [
        [],
        ALL[:1],
        [ALL[0], ALL[2]],
        [*ALL[:2], msgspec.structs.replace(ALL[2], uncontrolled=("thread 'x' runs outside",))],
        [*ALL[:2], msgspec.structs.replace(ALL[2], stopped="blocked", blocked=1)],
        [*ALL[:2], msgspec.structs.replace(ALL[2], stopped="error", error="killed")],
        [msgspec.structs.replace(ALL[0], schedules=0), *ALL[1:]],
    ],
    ids=["nothing", "cut", "gap", "uncontrolled", "blocked", "error", "short"],
)
def test_a_search_that_lacks_evidence_is_never_held(shards):
    record, _ = merged("a/b", PLAN, shards, "", timed=False)
    assert record.verdict is Verdict.INCONCLUSIVE
    assert record.reason


def test_an_end_by_time_is_the_stated_end_only_when_no_budget_was_stated():
    cut = [msgspec.structs.replace(ALL[0], stopped="time", schedules=20)]
    assert merged("a/b", PLAN, cut, "", timed=True)[0].verdict is Verdict.HELD
    assert "20 of" in merged("a/b", PLAN, cut, "", timed=False)[0].reason


def test_shards_behind_the_first_failure_change_nothing():
    first = [ALL[0], shard(1, 5, failures=(failure(execution=5),))]
    behind = [*first, shard(2, 1, failures=(failure("I52:other"),))]
    assert merged("a/b", PLAN, first, "", timed=False) == merged("a/b", PLAN, behind, "", timed=False)
    record, found = merged("a/b", PLAN, first, "", timed=False)
    assert record.verdict is Verdict.VIOLATED
    assert [f.execution for f in found] == [SHARD_SCHEDULES + 5]


def test_one_failure_of_several_programs_is_told_once_by_its_cheapest_example():
    cheap = failure(preemptions=1, program="c/d", execution=9)
    (one,) = distinct([failure(), cheap, failure(preemptions=4)], "vllm-omni==0.28.0")
    assert (one.program, one.preemptions, one.count, one.execution) == ("c/d", 1, 3, 3)
    assert set(one.programs) == {"a/b", "c/d"}
    assert one.replay == "omni-verify replay ov1.0.x --target 'vllm-omni==0.28.0'"


def test_a_checkpoint_resumes_and_refuses_another_exploration(tmp_path):
    path = tmp_path / "run.jsonl"
    one = Checkpoint(path, resume=False, target="t", programs=("a/b",), plan=PLAN)
    one.keep(ALL[0])
    one.keep(msgspec.structs.replace(ALL[1], stopped="time"))
    with path.open("ab") as file:
        file.write(b'{"program": "a/b", "num')  # killed while it wrote
    again = Checkpoint(path, resume=True, target="t", programs=("a/b",), plan=PLAN)
    assert list(again.done) == [("a/b", 0)]
    other = msgspec.structs.replace(PLAN, seed=8)
    with pytest.raises(UsageError, match=r"plan expected .*seed=8.*got .*seed=7"):
        Checkpoint(path, resume=True, target="t", programs=("a/b",), plan=other)
    with pytest.raises(UsageError, match="--checkpoint"):
        Checkpoint(None, resume=True, target="t", programs=(), plan=PLAN)
