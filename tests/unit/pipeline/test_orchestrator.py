"""The orchestrator's rules on scripted stages: no threads, every order is the test's own."""

from __future__ import annotations

import itertools

import pytest
import torch

from omni_verify.errors import UsageError
from omni_verify.pipeline.orchestration import DuplicateRequestError, ErrorMessage, Orchestrator, StageInfo
from omni_verify.pipeline.orchestration import orchestrator as orchestrator_module
from omni_verify.pipeline.stages.handle import StageUnavailableError
from omni_verify.pipeline.stages.messages import (
    FinishReason,
    StageDied,
    StageOutput,
    StageReady,
    StageRequest,
    TransferReleased,
    TransferSent,
)
from omni_verify.pipeline.stages.params import RequestOutputKind, SamplingParams


class ScriptedStage:
    """Record what the orchestrator asks for; emit what the test puts into `events`."""

    def __init__(self, stage_id, log):
        self.stage_id, self.log, self.events, self.available = stage_id, log, [], True

    def submit(self, request):
        if not self.available:
            raise StageUnavailableError(f"stage {self.stage_id} is closed")
        self.log.append(("submit", self.stage_id, request))

    def abort(self, ids):
        self.log.append(("abort", self.stage_id, tuple(ids)))

    def release(self, ids):
        self.log.append(("release", self.stage_id, tuple(ids)))

    def pump(self):
        return False

    def poll(self):
        events, self.events = self.events, []
        return events

    def set_notify(self, notify):
        pass


def aligner_input(outputs, state):
    audio = outputs[0].outputs[0].multimodal_output["audio"]
    return [
        StageRequest(
            state.request_id,
            state.request_id,
            [1],
            state.sampling_params[2],
            state.final_stage_id,
            multi_modal_data={"audio": audio},
        )
    ]


OMNI = (
    StageInfo(0, final_output=True, final_output_type="text", async_chunk=True),
    StageInfo(1, receives_chunks=True, async_chunk=True),
    StageInfo(2, final_output=True, final_output_type="audio", receives_chunks=True, async_chunk=True),
)
TTS_ALIGNED = (
    StageInfo(0, async_chunk=True),
    StageInfo(1, final_output=True, final_output_type="audio", receives_chunks=True, async_chunk=True),
    StageInfo(2, final_output=True, final_output_type="timestamps", input_processor=aligner_input),
)


class World:
    def __init__(self, stages, **options):
        self.log, self.messages = [], []
        self.stages = [ScriptedStage(stage.stage_id, self.log) for stage in stages]
        self.orchestrator = Orchestrator(self.stages, stages, **options)

    def add(self, rid="R", modalities=None, kind=RequestOutputKind.DELTA, **prompt):
        params = [SamplingParams(output_kind=kind) for _ in self.stages]
        prompt = {"prompt_token_ids": [1, 2, 3]} | prompt
        self.orchestrator.add_request(rid, prompt, params, self.messages.append, modalities=modalities)

    def emit(self, stage_id, rid="R", **fields):
        if fields.get("finished"):
            fields.setdefault("finish_reason", FinishReason.STOP)
        self.stages[stage_id].events.append(StageOutput(stage_id, rid, **fields))
        self.orchestrator.step()

    def audio(self, stage_id, samples, **fields):
        self.emit(stage_id, multimodal_output={"audio": torch.ones(samples), "sr": 24000}, **fields)

    def did(self, verb):
        return [(stage, what) for kind, stage, what in self.log if kind == verb]

    def submitted(self):
        return [stage for stage, _ in self.did("submit")]

    def finished(self):
        return [message.finished for message in self.messages]


def test_prewarm_places_zero_placeholders_on_chunk_stages_in_order():
    world = World(OMNI)
    world.add()
    assert world.submitted() == [0, 1, 2]
    placeholder = world.did("submit")[2][1]
    assert placeholder.prompt_token_ids == [0, 0, 0]
    assert placeholder.request_id == placeholder.external_req_id == "R"


def test_prewarm_skips_the_aligner_and_stops_at_the_final_stage():
    world = World(TTS_ALIGNED)
    world.add()
    assert world.submitted() == [0, 1]
    text_only = World(OMNI)
    text_only.add(modalities=["text"])
    assert text_only.submitted() == [0]


def test_text_only_request_completes_at_stage_zero():
    world = World(OMNI)
    world.add(modalities=["text"])
    world.emit(0, token_ids=[5])
    world.emit(0, token_ids=[6], finished=True)
    assert world.finished() == [False, True]
    assert world.did("abort") == []


@pytest.mark.parametrize("order", list(itertools.permutations([0, 1, 2])))
def test_one_finished_message_and_it_is_the_last_in_every_finish_order(order):
    world = World(OMNI)
    world.add()
    for stage_id in order:
        assert "R" in world.orchestrator.requests
        if stage_id == 2:
            world.audio(2, 10, finished=True)
        else:
            world.emit(stage_id, token_ids=[1], finished=True)
    assert world.finished()[-1] is True
    assert sum(world.finished()) == 1
    assert "R" not in world.orchestrator.requests


def test_aligner_gets_the_complete_waveform_once_and_after_the_end():
    world = World(TTS_ALIGNED)
    world.add(kind=RequestOutputKind.CUMULATIVE)
    for samples in (800, 1200):
        world.audio(1, samples)
    assert 2 not in world.submitted()
    world.emit(0, finished=True)
    world.audio(1, 400, finished=True)
    (aligner,) = [what for stage, what in world.did("submit") if stage == 2]
    assert aligner.multi_modal_data["audio"].numel() == 2400
    assert [len(m.output.outputs[0].multimodal_output["audio"]) for m in world.messages] == [800, 2000, 2400]
    world.emit(2, multimodal_output={"timestamps": [[0, 100]]}, finished=True)
    assert world.finished() == [False, False, False, True]


def test_a_repeated_end_is_forwarded_once():
    world = World(TTS_ALIGNED)
    world.add(kind=RequestOutputKind.CUMULATIVE)
    world.audio(1, 400, finished=True)
    world.audio(1, 400, finished=True)
    assert world.submitted() == [0, 1, 2]


def test_a_prompt_without_tokens_cannot_be_prewarmed_but_text_alone_can():
    world = World(OMNI)
    world.add(prompt_token_ids=[])
    assert world.messages[-1].status_code == 400
    text = World(OMNI)
    text.add(prompt_token_ids=[], modalities=["text"])
    assert text.messages == []


def test_timestamps_wait_for_the_audio_and_the_audio_for_the_timestamps():
    world = World(TTS_ALIGNED)
    world.add(kind=RequestOutputKind.CUMULATIVE)
    world.audio(1, 800, finished=True)
    assert "R" in world.orchestrator.requests
    world.emit(2, multimodal_output={"timestamps": []}, finished=True)
    assert world.finished() == [False]
    world.emit(0, finished=True)
    assert world.finished() == [False, True]
    assert world.messages[-1].output_type == "timestamps"


def test_release_comes_after_the_end_only_and_blocks_reuse_until_confirmed():
    world = World(OMNI)
    world.add()
    world.emit(0, finished=True)
    world.emit(1, finished=True)
    assert world.did("release") == []
    world.audio(2, 5, finished=True)
    assert world.did("release") == [(0, ("R",)), (1, ("R",)), (2, ("R",))]
    with pytest.raises(DuplicateRequestError, match="being released"):
        world.add()
    for stage in world.stages:
        stage.events.append(TransferReleased(stage.stage_id, ("R",)))
    world.orchestrator.step()
    assert world.orchestrator.quiescent()
    world.add()


def test_release_keeps_one_batch_in_flight_and_coalesces_the_rest():
    world = World(OMNI)
    for rid in ("A", "B", "C"):
        world.add(rid, modalities=["text"])
    world.emit(0, "A", finished=True)
    world.emit(0, "B", finished=True)
    world.emit(0, "C", finished=True)
    assert world.did("release") == [(k, ("A",)) for k in range(3)]
    world.stages[1].events.append(TransferReleased(1, ("A",)))
    world.orchestrator.step()
    assert world.did("release")[3:] == [(1, ("B", "C"))]


def test_unanswered_release_is_given_up(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("omni_verify.pipeline.orchestration.release.time.monotonic", lambda: now[0])
    world = World(OMNI)
    world.add(modalities=["text"])
    world.emit(0, finished=True)
    assert not world.orchestrator.quiescent()
    now[0] = 6.0
    world.orchestrator.step()
    assert world.orchestrator.quiescent()
    world.stages[0].events.append(TransferReleased(0, ("R",)))
    world.orchestrator.step()
    assert world.orchestrator.quiescent()


def test_a_live_id_is_refused_and_its_owner_untouched():
    world = World(OMNI)
    world.add()
    with pytest.raises(DuplicateRequestError, match="in use"):
        world.add()
    assert world.submitted() == [0, 1, 2]
    assert len(world.orchestrator.requests) == 1


def test_abort_reaches_every_running_stage_and_silences_the_sink():
    world = World(OMNI)
    world.add()
    world.emit(0, finished=True)
    seen = len(world.messages)
    assert world.orchestrator.abort("R") is True
    assert world.did("abort") == [(0, ("R",)), (1, ("R",)), (2, ("R",))]
    world.audio(2, 5)
    assert len(world.messages) == seen
    assert world.orchestrator.abort("R") is False


def test_error_of_one_stage_ends_all_and_tells_the_client_at_once():
    world = World(OMNI)
    world.add()
    world.emit(1, finished=True, finish_reason=FinishReason.ERROR, error="connector.put reported failure")
    (message,) = world.messages
    assert isinstance(message, ErrorMessage)
    assert message.stage_id == 1
    assert "put" in message.message
    assert [stage for stage, _ in world.did("abort")] == [0, 1, 2]


def test_a_consumer_that_stops_early_ends_its_upstream():
    world = World(OMNI)
    world.add()
    world.emit(0, finished=True)
    world.audio(2, 5, finished=True, finish_reason=FinishReason.LENGTH)
    assert world.did("abort") == [(1, ("R",))]
    assert world.finished()[-1] is True
    assert world.did("release")[0] == (0, ("R",))


def test_hold_of_the_final_output_is_bounded(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(orchestrator_module.time, "monotonic", lambda: now[0])
    world = World(OMNI, hold_timeout_s=3.0)
    world.add()
    world.emit(0, finished=True)
    world.audio(2, 5, finished=True)
    assert True not in world.finished()
    now[0] = 3.5
    world.orchestrator.step()
    assert world.finished()[-1] is True
    assert world.did("abort") == [(1, ("R",))]


def test_death_of_a_stage_fails_its_requests_and_holds_releases_for_the_successor():
    world = World(OMNI)
    world.add("done", modalities=["text"])
    world.emit(0, "done", finished=True)
    world.add("live")
    world.stages[1].events.append(StageDied(1, "killed by signal 9"))
    world.orchestrator.step()
    assert isinstance(world.messages[-1], ErrorMessage)
    for stage in (0, 2):
        world.stages[stage].events.append(TransferReleased(stage, ("done",)))
    world.orchestrator.step()
    assert [s for s, ids in world.did("release") if "live" in ids] == [0, 2]
    world.stages[1].events.append(StageReady(1))
    world.orchestrator.step()
    assert world.did("release")[-1] == (1, ("done", "live"))


def test_death_of_a_finished_stage_fails_those_whose_chunks_died_with_it_and_no_other():
    """Else the next stage waits for lost chunks until the stall time is over (I36, I46)."""
    world = World(OMNI)
    for rid in ("lost", "put", "read", "text"):
        world.add(rid, modalities=["text"] if rid == "text" else None)
        world.emit(0, rid, finished=True, unsent=True)
    world.stages[0].events.append(TransferSent(0, "put"))
    world.emit(1, "read", finished=True)
    world.stages[0].events.append(StageDied(0, "killed by signal 9"))
    world.orchestrator.step()
    failed = [message for message in world.messages if isinstance(message, ErrorMessage)]
    assert [(message.request_id, message.stage_id) for message in failed] == [("lost", 0)]
    assert list(world.orchestrator.requests) == ["put", "read"]


def test_unavailable_stage_is_a_503_and_wrong_arguments_start_nothing():
    world = World(OMNI)
    world.stages[1].available = False
    world.add()
    assert world.messages[-1].status_code == 503
    assert world.did("abort")[0] == (0, ("R",))
    fresh = World(OMNI)
    with pytest.raises(UsageError, match="not offered"):
        fresh.add(modalities=["video"])
    with pytest.raises(UsageError, match="3 stages"):
        fresh.orchestrator.add_request("R", {}, [], fresh.messages.append)
    assert fresh.log == []


def test_poll_order_is_the_callers():
    world = World(OMNI, poll_order=lambda ids: reversed(ids))
    world.add()
    world.stages[0].events.append(StageOutput(0, "R", finished=True, finish_reason=FinishReason.STOP))
    world.stages[2].events.append(StageOutput(2, "R", multimodal_output={"audio": torch.ones(3)}))
    world.orchestrator.step()
    assert [message.stage_id for message in world.messages] == [2, 0]


def test_full_results_are_forwarded_when_no_stage_chunks():
    stages = (
        StageInfo(0, final_output=True, final_output_type="text"),
        StageInfo(1, input_processor=lambda outs, state: aligner_input(outs, state)),
        StageInfo(2, final_output=True, final_output_type="audio", input_processor=lambda outs, state: []),
    )
    world = World(stages)
    world.add()
    assert world.submitted() == [0]
    world.audio(0, 4)
    world.audio(0, 4, finished=True)
    assert world.submitted() == [0, 1]
    world.emit(1, finished=True)
    last = world.messages[-1]
    assert last.finished
    assert last.output.outputs[0].multimodal_output["audio"].numel() == 0
