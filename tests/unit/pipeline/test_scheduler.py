"""The schedulers alone: what they ask of an adapter, and who runs when."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from omni_verify.errors import UsageError
from omni_verify.pipeline.request import Request, RequestStatus
from omni_verify.pipeline.scheduling import OmniARScheduler, OmniGenerationScheduler, RunnerOutput
from omni_verify.pipeline.scheduling.ar import join_steps
from omni_verify.pipeline.scheduling.base import realign_request_status
from omni_verify.pipeline.scheduling.generation import is_complete
from omni_verify.pipeline.scheduling.queue import RequestQueue
from omni_verify.pipeline.stages.messages import FinishReason
from omni_verify.pipeline.stages.params import SamplingParams


class RecordingAdapter:
    """Record the calls of a scheduler; nothing is ever parked."""

    receives_chunks = True

    def __init__(self):
        self.calls, self.saved, self.done, self.send, self.receive, self.late = [], [], set(), {}, {}, set()

    def process_pending_chunks(self, waiting, running, *, scheduler_requests):
        self.calls.append("process")

    def postprocess_scheduler_output(self, output, requests):
        self.calls.append("post")

    def restore_queues(self, waiting, running, requests):
        self.calls.append("restore")

    def finish_requests(self, ids, status, requests):
        self.calls.append(("finish", tuple(ids), status))

    def is_done_receiving_chunks(self, request_id):
        return request_id in self.done

    def cleanup(self, request_id, external):
        self.calls.append(("cleanup", request_id))

    def cleanup_receiver(self, request_id):
        self.calls.append(("cleanup_receiver", request_id))

    def save_async(self, data, request, segment=False, **fields):
        self.saved.append((data, request.request_id, request.is_finished()))
        self.calls.append(("save", request.request_id))

    def collect_failed_send_request_ids(self):
        taken, self.send = self.send, {}
        return taken

    def collect_failed_receive_request_ids(self):
        taken, self.receive = self.receive, {}
        return taken

    def collect_timed_out_request_ids(self, timeout_s):
        return self.late


def request(rid="R", tokens=4, **params):
    return Request(rid, prompt_token_ids=[1] * tokens, sampling_params=SamplingParams(**params))


@pytest.fixture
def adapter():
    return RecordingAdapter()


def run(scheduler, **results):
    scheduled = scheduler.schedule()
    return scheduled, scheduler.update_from_output(scheduled, results)


@pytest.mark.parametrize("kind", [OmniARScheduler, OmniGenerationScheduler])
def test_queues_are_restored_when_scheduling_raises(kind, adapter, monkeypatch):
    scheduler = kind(1, adapter)
    monkeypatch.setattr(scheduler, "_select", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        scheduler.schedule()
    assert adapter.calls == ["process", "restore"]


def test_a_tick_calls_the_adapter_in_order(adapter):
    OmniARScheduler(1, adapter).schedule()
    assert adapter.calls == ["process", "post", "restore"]


def test_prefill_of_the_first_stage_is_split_by_the_budget():
    scheduler = OmniARScheduler(0, None, max_num_batched_tokens=3)
    scheduler.add_request(request(tokens=8))
    sizes = []
    for computed in (3, 6, 8):
        scheduled, _ = run(scheduler, R=RunnerOutput(num_computed_tokens=computed))
        sizes.append(scheduled.num_scheduled_tokens["R"])
    assert sizes == [3, 3, 2]


def test_prefill_of_a_fed_stage_is_never_split(adapter):
    scheduler = OmniARScheduler(1, adapter, max_num_batched_tokens=6)
    scheduler.add_request(request("A", tokens=4))
    scheduler.add_request(request("B", tokens=9))
    first, _ = run(scheduler)
    assert first.num_scheduled_tokens == {"A": 4}
    scheduler.finish_requests(["A"], RequestStatus.FINISHED_ABORTED)
    second, _ = run(scheduler)
    assert second.num_scheduled_tokens == {"B": 9}


def test_no_more_than_max_num_seqs_run():
    scheduler = OmniARScheduler(0, None, max_num_seqs=2)
    for rid in "ABC":
        scheduler.add_request(request(rid))
    scheduled, _ = run(scheduler)
    assert list(scheduled.num_scheduled_tokens) == ["A", "B"]
    assert [waiting.request_id for waiting in scheduler.waiting] == ["C"]


@pytest.mark.parametrize(
    ("params", "result", "reason"),
    [
        ({"stop_token_ids": [9]}, RunnerOutput(token_ids=[9]), FinishReason.STOP),
        ({"max_tokens": 1}, RunnerOutput(token_ids=[5]), FinishReason.LENGTH),
        ({}, RunnerOutput(stopped=True), FinishReason.STOP),
        ({}, RunnerOutput(length_capped=True), FinishReason.LENGTH),
    ],
)
def test_the_end_is_reported_and_always_handed_to_the_edge(adapter, params, result, reason):
    scheduler = OmniARScheduler(1, adapter)
    scheduler.add_request(request(**params))
    _, outputs = run(scheduler, R=result)
    assert [(out.finished, out.finish_reason) for out in outputs] == [(True, reason)]
    assert adapter.saved == [(None, "R", True)]
    assert adapter.calls.index(("cleanup_receiver", "R")) < adapter.calls.index(("save", "R"))
    assert scheduler.schedule().finished_req_ids == {"R"}
    assert not scheduler.has_requests()


def test_an_abort_during_the_step_drops_its_result(adapter):
    scheduler = OmniARScheduler(1, adapter)
    scheduler.add_request(request())
    scheduled = scheduler.schedule()
    scheduler.finish_requests(["R"], RequestStatus.FINISHED_ABORTED)
    assert scheduler.update_from_output(scheduled, {"R": RunnerOutput(token_ids=[1])}) == []
    assert adapter.saved == []


def test_abort_finds_a_request_whose_status_names_no_queue(adapter):
    scheduler = OmniARScheduler(1, adapter)
    scheduler.add_request(request("A"))
    scheduler.schedule()
    scheduler.add_request(request("B"))
    for each in scheduler.requests.values():
        each.status = RequestStatus.WAITING_FOR_CHUNK
    realign_request_status(scheduler, ["A", "B"])
    assert scheduler.requests["A"].status is RequestStatus.RUNNING
    assert scheduler.requests["B"].status is RequestStatus.WAITING
    scheduler.finish_requests(["A", "B"], RequestStatus.FINISHED_ABORTED)
    assert (scheduler.running, len(scheduler.waiting), scheduler.requests) == ([], 0, {})


def test_abort_of_an_unknown_id_still_reaches_the_adapter(adapter):
    scheduler = OmniARScheduler(1, adapter)
    assert scheduler.finish_requests(["gone"], RequestStatus.FINISHED_ABORTED) == []
    assert ("finish", ("gone",), RequestStatus.FINISHED_ABORTED) in adapter.calls


def test_failures_and_stalls_become_errors_once(adapter):
    scheduler = OmniARScheduler(1, adapter, input_wait_timeout_s=5)
    for rid in "ABC":
        scheduler.add_request(request(rid))
    adapter.send, adapter.receive, adapter.late = (
        {"A": "put failed", "left": "put failed"},
        {"B": "bad bytes"},
        {"C"},
    )
    outputs = {out.request_id: out for out in scheduler.drain_failures()}
    adapter.late = set()
    assert {rid: out.finish_reason for rid, out in outputs.items()} == dict.fromkeys(
        ("A", "B", "C", "left"), FinishReason.ERROR
    )
    assert "5s" in outputs["C"].error
    assert not scheduler.has_requests()
    assert scheduler.drain_failures() == []


def test_a_live_id_is_refused():
    scheduler = OmniARScheduler(0, None)
    scheduler.add_request(request())
    owner = scheduler.requests["R"]
    with pytest.raises(UsageError, match="already live"):
        scheduler.add_request(request())
    assert scheduler.requests["R"] is owner


def test_generation_runs_a_chunk_once_and_ends_after_the_last(adapter):
    scheduler = OmniGenerationScheduler(2, adapter)
    scheduler.add_request(request(tokens=32))
    audio = RunnerOutput(client_output={"audio": torch.ones(3)})
    scheduled, outputs = run(scheduler, R=audio)
    assert (scheduled.num_scheduled_tokens, outputs[0].finished) == ({"R": 32}, False)
    assert scheduler.schedule().is_empty
    live = scheduler.requests["R"]
    live.prompt_token_ids, live.num_computed_tokens = [1] * 16, 0
    adapter.done.add("R")
    scheduled, outputs = run(scheduler, R=audio)
    assert (scheduled.num_scheduled_tokens, outputs[0].finish_reason) == ({"R": 16}, FinishReason.STOP)
    assert ("cleanup", "R") in adapter.calls


def test_generation_ends_an_empty_terminal_without_a_step(adapter):
    scheduler = OmniGenerationScheduler(2, adapter)
    scheduler.add_request(request("A", tokens=0))
    assert scheduler.schedule().is_empty
    assert scheduler.take_pending_finishes() == []
    assert [each.request_id for each in scheduler.waiting] == ["A"]
    adapter.done.add("A")
    assert scheduler.schedule().is_empty
    assert [(out.request_id, out.finished) for out in scheduler.take_pending_finishes()] == [("A", True)]


def test_one_bad_row_fails_alone(adapter):
    scheduler = OmniGenerationScheduler(2, adapter)
    scheduler.add_request(request("bad"))
    scheduler.add_request(request("good"))
    _, outputs = run(
        scheduler,
        bad=RunnerOutput(error="7 codes"),
        good=RunnerOutput(client_output={"audio": torch.ones(1)}),
    )
    assert [(out.request_id, out.finish_reason) for out in outputs] == [
        ("bad", FinishReason.ERROR),
        ("good", None),
    ]
    assert list(scheduler.requests) == ["good"]


def test_full_payload_is_joined_and_sent_at_the_end(adapter):
    scheduler = OmniARScheduler(0, adapter, full_payload=True)
    scheduler.add_request(request())
    for value in (1, 2):
        run(scheduler, R=RunnerOutput(inter_stage_output={"codes": {"audio": torch.full((1, 2), value)}}))
    assert adapter.saved == []
    run(scheduler, R=RunnerOutput(stopped=True))
    ((data, _, finished),) = adapter.saved
    assert finished
    assert data["codes"]["audio"].tolist() == [[1, 1], [2, 2]]


def test_joining_keeps_layers_apart():
    steps = [
        {"hidden_states": {"layers": {0: torch.ones(1, 2), 4: torch.zeros(1, 2)}}, "embed": {"x": n}}
        for n in (1, 2)
    ]
    joined = join_steps(steps)
    assert {layer: tuple(rows.shape) for layer, rows in joined["hidden_states"]["layers"].items()} == {
        0: (2, 2),
        4: (2, 2),
    }
    assert joined["embed"] == {"x": 2}
    assert join_steps([]) == {}


def test_queue_keeps_order_and_removes_by_identity():
    first, second, twin = request("A"), request("B"), request("A")
    queue = RequestQueue([first, second])
    queue.prepend_requests([twin])
    queue.remove(first)
    assert [each is other for each, other in zip(queue, [twin, second], strict=True)] == [True, True]
    assert first not in queue
    assert queue.peek_request() is queue.pop_request()
    assert SimpleNamespace(n=len(queue)).n == 1


def test_a_finished_upstream_does_not_end_a_request_with_a_chunk_to_compute():
    live = request(tokens=16)
    assert not is_complete(live, done=True)
    live.num_computed_tokens = 16
    assert is_complete(live, done=True)
    assert not is_complete(live, done=False)
