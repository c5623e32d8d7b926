"""Guards of what the orchestrator tells a stage: its input once and complete, and the end of a request."""

import pytest

from omni_verify.pipeline.orchestration.state import RequestState, StageInfo, should_forward, stages_to_abort
from omni_verify.pipeline.stages.messages import StageOutput

CHUNKED = [StageInfo(0, async_chunk=True), StageInfo(1, final_output=True, receives_chunks=True)]
ONE_SHOT = [StageInfo(0, async_chunk=True), StageInfo(1, final_output=True)]


def state(submitted, *, streaming_input=False):
    return RequestState(
        "R",
        {"prompt_token_ids": [1]},
        [],
        final_stage_id=1,
        final_output_stage_ids=frozenset({1}),
        sink=lambda message: None,
        streaming_input=streaming_input,
        stage_submit_ts=dict.fromkeys(submitted, 0.0),
    )


@pytest.mark.invariant("I10", "I9")
@pytest.mark.parametrize("submitted", [[0], [0, 1]])
@pytest.mark.parametrize("streaming_input", [False, True])
def test_a_stage_that_receives_chunks_never_gets_a_full_result_too(submitted, streaming_input):
    output = StageOutput(0, "R", finished=True)
    assert not should_forward(
        state(submitted, streaming_input=streaming_input), output, CHUNKED, async_chunk=True
    )


@pytest.mark.invariant("I10")
def test_a_full_result_is_handed_over_once_and_only_when_it_is_complete():
    for finished, submitted, expected in [(False, [0], False), (True, [0], True), (True, [0, 1], False)]:
        output = StageOutput(0, "R", finished=finished)
        assert should_forward(state(submitted), output, ONE_SHOT, async_chunk=True) is expected


@pytest.mark.invariant("I39", "I51")
def test_the_end_of_a_request_reaches_every_stage_that_still_runs():
    ended = state([0, 1])
    ended.finished_stage_ids.add(1)
    assert stages_to_abort(ended, complete=True) == [0]
    assert stages_to_abort(ended, complete=False) == [0, 1]
