"""Registrations, commits, parking and deadlines on the receiving side."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace

import pytest
import torch

from omni_verify.contracts.payload_schema import (
    CodesStruct,
    EmbeddingsStruct,
    IdsStruct,
    MetaStruct,
    OmniPayloadStruct,
)
from omni_verify.pipeline.request import RequestStatus
from omni_verify.pipeline.transfer_adapter import parking


def put_raw(edge, request, payload, chunk_id=0):
    ok, _, _ = edge.producer.connector.put(
        from_stage="1", to_stage="2", put_key=f"{request.external_req_id}_1_{chunk_id}", data=payload
    )
    assert ok


def meta(**flags):
    return {name: torch.tensor(value) if isinstance(value, bool) else value for name, value in flags.items()}


WRONG = {
    "list": [1, 2],
    "str": "codes",
    "int": 7,
    "none": None,
    "empty": {},
    "meta-list": {"meta": [1], "codes": {"audio": torch.tensor([1])}},
    "no-codes": {"meta": {"left_context_size": 0}},
    "codes-list": {"meta": {}, "codes": [1]},
    "float-codes": {"meta": {}, "codes": {"audio": torch.tensor([1.0])}},
    "float-list": {"meta": {}, "codes": {"audio": [1.5]}},
    "bool-codes": {"meta": {}, "codes": {"audio": torch.tensor([True])}},
    "scalar-codes": {"meta": {}, "codes": {"audio": torch.tensor(3)}},
    "float-terminal": {"meta": meta(finished=True), "codes": {"audio": torch.tensor([1.0])}},
}


@pytest.mark.parametrize("payload", WRONG.values(), ids=WRONG)
def test_a_wrong_shape_fails_the_request_and_skips_no_chunk(edge, payload):
    request = edge.request()
    put_raw(edge, request, payload)
    put_raw(edge, request, {"meta": meta(finished=True), "codes": {"audio": torch.tensor([1])}}, 1)
    prompts, failure = edge.consumer.receive(request)
    assert prompts == []
    assert "expected" in failure  # W8, I46
    assert edge.consumer.adapter.get_req_chunk.get(request.request_id, 0) == 0
    edge.consumer.abort(request)
    edge.producer.connector.cleanup(f"{request.external_req_id}_1_1")
    edge.wait_clean()


def test_undecodable_bytes_fail_the_request_at_once(edge):
    request = edge.request()
    edge.producer.connector.serialize_obj = lambda obj: b"\xc1 not msgpack"
    put_raw(edge, request, {})
    _, failure = edge.consumer.receive(request)
    assert failure
    edge.consumer.abort(request)
    edge.wait_clean()


def test_an_explicitly_empty_chunk_means_not_yet(edge):
    request = edge.request()
    put_raw(
        edge, request, {"meta": meta(finished=False), "codes": {"audio": torch.tensor([], dtype=torch.int64)}}
    )
    put_raw(edge, request, {"meta": meta(finished=True), "codes": {"audio": torch.tensor([5])}}, 1)
    assert edge.consumer.receive(request) == ([[5]], None)


def test_an_empty_boundary_becomes_a_placeholder_and_tensors_of_two_dimensions_stay_tensors(edge):
    request = edge.request(resumable=True)
    put_raw(edge, request, {"meta": meta(is_segment_finished=True)})
    assert edge.consumer.receive(request, chunks=1) == ([[0]], None)
    edge.consumer.adapter.segment_finished_requests.discard(request.request_id)
    put_raw(
        edge,
        request,
        {"meta": meta(finished=True), "codes": {"audio": torch.ones(2, 3, dtype=torch.int64)}},
        1,
    )
    assert edge.consumer.receive(request) == ([[0]], None)
    assert request.additional_information is None or "codes" in request.additional_information


def test_a_chunk_merges_into_the_information_unless_it_replaces_it(edge):
    request = edge.request()
    first = {
        "meta": {"left_context_size": 3},
        "codes": {"audio": torch.tensor([1]), "ref": torch.tensor([9])},
    }
    put_raw(edge, request, first)
    edge.consumer.receive(request, chunks=1)
    put_raw(edge, request, {"codes": {"audio": torch.tensor([2])}, "speaker": "a"}, 1)
    edge.consumer.receive(request, chunks=1)
    information = request.additional_information
    assert (information["meta"]["left_context_size"], information["speaker"]) == (3, "a")
    assert "audio" not in information["codes"]
    assert request.num_prompt_tokens == 1
    replacing = {
        "meta": {"replace_runtime_additional_information": True},
        "codes": {"audio": torch.tensor([3])},
    }
    put_raw(edge, request, replacing, 2)
    edge.consumer.receive(request, chunks=1)
    assert "speaker" not in request.additional_information


# -- identity -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("again", [False, True])
def test_a_late_get_changes_nothing_after_cleanup(edge, gate, again):
    held = gate(edge.consumer.connector, "get", after=True)
    adapter, old, new = edge.consumer.adapter, edge.request(), edge.request()
    put_raw(edge, old, {"meta": {}, "codes": {"audio": torch.tensor([1])}})
    adapter.load_async(old)
    held.wait()
    adapter.cleanup_receiver(old.request_id)
    if again:
        adapter.load_async(new)
    put_raw(edge, old, {"meta": {}, "codes": {"audio": torch.tensor([2])}})
    held.release()
    if again:
        edge.consumer.admit(new)
        assert edge.consumer.receive(new, chunks=1) == ([[2]], None)  # I38
        edge.consumer.finish(new)
    else:
        edge.producer.connector.cleanup(f"{old.external_req_id}_1_0")
    assert old.prompt_token_ids == []
    edge.wait_clean()


def test_a_stale_queued_registration_does_not_revive(edge, gate):
    held = gate(edge.consumer.connector, "get")
    adapter, other, stale = edge.consumer.adapter, edge.request("other"), edge.request()
    adapter.load_async(other)
    held.wait()
    adapter.load_async(stale)
    adapter.cleanup_receiver(stale.request_id)
    adapter.cleanup_receiver(other.request_id)
    held.release()
    edge.wait_clean()


def test_no_container_grows_with_finished_requests(edge):
    adapter = edge.consumer.adapter
    for number in range(500):
        request = edge.request(f"R{number}")
        adapter.load_async(request)
        adapter.cleanup_receiver(request.request_id)
    edge.wait_clean(edge.consumer)  # I39


def test_the_late_cleanup_of_an_old_stream_spares_a_new_registration(edge, gate):
    """The talker's terminal is put while its id is registered again for receiving (W4, I38b)."""
    talker = edge.producer
    upstream = edge.stage(0)
    old, new = edge.request(), edge.request()
    talker.admit(old)
    talker.tick()
    put = gate(talker.connector, "put", after=True)
    talker.save(old, [1], last=True)
    put.wait()
    talker.adapter.cleanup_receiver(old.request_id)
    talker.waiting.clear()
    talker.admit(new)
    talker.tick()
    put.release()
    talker.drain()
    talker.tick()
    assert talker.adapter._receiver_owners[new.request_id] is new
    assert new.request_id in talker.adapter._waiting_since
    upstream.save(edge.request(), [8], last=True)
    assert talker.receive(new) == ([[8]], None)
    edge.consumer.adapter.cleanup_receiver(new.request_id)


def test_only_the_scheduler_thread_touches_its_containers(edge):
    """A stage that receives and sends: V ends streams while S ticks (W2, I44b)."""
    talker, adapter, me = edge.producer, edge.producer.adapter, threading.get_ident()
    touched = set()

    class Watched(type(adapter.waiting_for_chunk_waiting_requests)):
        def popleft(self):
            touched.add(threading.get_ident())
            return super().popleft()

        def append(self, item):
            touched.add(threading.get_ident())
            super().append(item)

    for name in (
        "waiting_for_chunk_waiting_requests",
        "waiting_for_chunk_running_requests",
        "_held_non_active",
    ):
        setattr(adapter, name, Watched())
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for number in range(40):
            request = edge.request(f"R{number}")
            talker.admit(request)
            talker.tick()
            talker.save(request, [number], last=True)
            talker.tick()
        talker.drain()
        talker.tick()
    finally:
        sys.setswitchinterval(interval)
    assert touched == {me}
    assert not adapter._receiver_inbox
    talker.live.clear()
    talker.tick()
    assert not adapter._receiver_owners
    for number in range(40):
        adapter.release_shm_resources(edge.request(f"R{number}").request_id)


# -- commit and ready markers ----------------------------------------------------------------------------


def test_end_flags_become_visible_after_the_data(edge, gate, monkeypatch):
    held = threading.Event()
    release = threading.Event()
    real = torch.Tensor.tolist
    adapter, request = edge.consumer.adapter, edge.request(prompt_token_ids=[1, 2])
    request.num_computed_tokens = 2

    def tolist(tensor):
        if tensor.numel() == 3:
            held.set()
            assert release.wait(20)
        return real(tensor)

    monkeypatch.setattr(torch.Tensor, "tolist", tolist)
    put_raw(edge, request, {"meta": meta(finished=True), "codes": {"audio": torch.tensor([1, 2, 3])}})
    adapter.load_async(request)
    assert held.wait(20)
    answers = []

    def may_finish():
        done = adapter.is_done_receiving_chunks(request.request_id)
        answers.append(done and request.num_computed_tokens >= len(request.prompt_token_ids))

    asker = threading.Thread(target=may_finish)
    asker.start()
    assert request.request_id not in adapter.upstream_exhausted_requests
    release.set()
    asker.join(20)
    assert answers == [False]  # W13


def test_a_ready_marker_survives_until_the_request_is_scheduled(edge):
    request, adapter = edge.request(), edge.consumer.adapter
    put_raw(edge, request, {"meta": {}, "codes": {"audio": torch.tensor([1])}})
    edge.consumer.admit(request)
    nothing = SimpleNamespace(scheduled_new_reqs=[], scheduled_cached_reqs=SimpleNamespace(req_ids=["other"]))
    visible = 0
    while visible < 2:
        adapter.process_pending_chunks(
            edge.consumer.waiting, edge.consumer.running, scheduler_requests=edge.consumer.live
        )
        visible += request in edge.consumer.waiting
        adapter.postprocess_scheduler_output(nothing)
        adapter.restore_queues(edge.consumer.waiting, edge.consumer.running, edge.consumer.live)
        assert visible == 0 or adapter.requests_with_ready_chunks == {request.request_id}  # I43
    assert edge.consumer.tick() == [(request.request_id, [1])]
    assert adapter.requests_with_ready_chunks == set()


def test_restore_keeps_order_and_grants_nothing(edge):
    adapter, stage = edge.consumer.adapter, edge.consumer
    waiting = [edge.request(f"w{number}") for number in range(4)]
    running = [edge.request(f"r{number}", status=RequestStatus.RUNNING) for number in range(3)]
    for request in waiting:
        stage.admit(request)
    for request in running:
        stage.live[request.request_id] = request
        stage.running.append(request)
    for _ in range(3):
        adapter.process_pending_chunks(stage.waiting, stage.running, scheduler_requests=stage.live)
        assert (list(stage.waiting), stage.running) == ([], [])
        assert adapter.num_running_waiting_for_chunk == 3
        adapter.restore_queues(stage.waiting, stage.running, stage.live)
        assert list(stage.waiting) == waiting
        assert stage.running == running
        assert not adapter.requests_with_ready_chunks  # I44
    assert {request.status for request in (*waiting, *running)} == {RequestStatus.WAITING_FOR_CHUNK}


def test_a_parked_request_that_was_freed_elsewhere_is_gone_within_a_tick(edge):
    stage, dead = edge.consumer, edge.request()
    stage.admit(dead)
    stage.adapter.process_pending_chunks(stage.waiting, stage.running, scheduler_requests=stage.live)
    del stage.live[dead.request_id]
    stage.adapter.restore_queues(stage.waiting, stage.running, stage.live)
    assert not stage.waiting
    edge.wait_clean()  # I45


def test_a_freed_request_that_is_not_parked_loses_its_state_too(edge):
    stage, dead = edge.consumer, edge.request()
    stage.admit(dead)
    stage.tick()
    stage.waiting.clear()
    stage.live.clear()
    stage.tick()
    edge.wait_clean()


@pytest.mark.parametrize("origin", ["WAITING", "RUNNING"])
def test_abort_gives_a_parked_request_its_queue_status_back(edge, origin):
    stage, request = edge.consumer, edge.request(status=RequestStatus[origin])
    queue = stage.waiting if origin == "WAITING" else stage.running
    stage.live[request.request_id] = request
    queue.append(request)
    stage.adapter.process_pending_chunks(stage.waiting, stage.running, scheduler_requests=stage.live)
    assert request.status is RequestStatus.WAITING_FOR_CHUNK
    stage.adapter.finish_requests([request.request_id], RequestStatus.FINISHED_ABORTED, stage.live)
    assert request.status is RequestStatus[origin]
    stage.adapter.restore_queues(stage.waiting, stage.running, stage.live)
    assert not queue
    edge.wait_clean()


def test_too_many_running_requests_are_preempted_from_the_tail(edge):
    stage = edge.consumer
    for number in range(10):
        request = edge.request(f"r{number}", status=RequestStatus.RUNNING)
        stage.live[request.request_id] = request
        stage.running.append(request)
        stage.adapter.requests_with_ready_chunks.add(request.request_id)
    stage.adapter.process_pending_chunks(stage.waiting, stage.running, scheduler_requests=stage.live)
    assert len(stage.running) == 8
    assert [request.status for request in stage.waiting] == [RequestStatus.PREEMPTED] * 2
    assert [request.request_id[-1] for request in stage.waiting] == ["8", "9"]


# -- deadline ------------------------------------------------------------------------------------------


def test_the_stall_clock_runs_while_waiting_and_stops_on_progress(edge, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(parking, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    stage, request = edge.consumer, edge.request()
    stage.admit(request)
    stage.tick()
    clock[0] = 104.0
    stage.tick()
    assert stage.adapter.collect_timed_out_request_ids(5.0) == set()
    clock[0] = 106.0
    assert stage.adapter.collect_timed_out_request_ids(0) == set()
    put_raw(edge, request, {"meta": {}, "codes": {"audio": torch.tensor([1])}})
    stage.receive(request, chunks=1)
    assert request.request_id not in stage.adapter._waiting_since
    stage.tick()
    clock[0] = 110.0
    assert stage.adapter.collect_timed_out_request_ids(5.0) == set()
    stage.adapter._waiting_since.clear()
    stage.tick()  # W4: the clock exists while the status is WAITING_FOR_CHUNK
    clock[0] = 116.0
    assert stage.adapter.collect_timed_out_request_ids(5.0) == {request.request_id}


# -- AR stages and the active window -------------------------------------------------------------------------


def test_an_ar_stage_gets_its_chunk_on_the_scheduler_thread(edge):
    stage = edge.stage(2, worker_type="ar", max_model_len=16)
    request = edge.request(resumable=True, prompt_token_ids=[0, 0])
    first = OmniPayloadStruct(embed=EmbeddingsStruct(prefill=torch.ones(2, 4)), meta=MetaStruct())
    put_raw(edge, request, first)
    stage.receive(request, chunks=1)
    assert request.additional_information["embed"]["prefill"].shape == (2, 4)
    request.num_computed_tokens, request.output_token_ids = 3, [7]
    put_raw(edge, request, OmniPayloadStruct(meta=MetaStruct(next_stage_prompt_len=2)), 1)
    stage.receive(request, chunks=1)
    assert request.prompt_token_ids == [0, 0, 7, 0, 0]
    assert request.output_token_ids == []
    put_raw(
        edge,
        request,
        OmniPayloadStruct(ids=IdsStruct(prompt=[1, 2, 3]), meta=MetaStruct(replace_streaming_prompt=True)),
        2,
    )
    stage.receive(request, chunks=1)
    assert (request.prompt_token_ids, request.num_computed_tokens) == ([0, 0, 0], 0)
    put_raw(
        edge,
        request,
        OmniPayloadStruct(meta=MetaStruct(next_stage_prompt_len=99, finished=torch.tensor(True))),
        3,
    )
    request.num_computed_tokens = 3
    _, failure = stage.receive(request)
    assert "max_model_len" in failure
    stage.abort(request)
    edge.wait_clean(stage)


def test_an_ar_receiver_cleaned_up_during_the_get_keeps_no_prompt_update(edge, gate):
    stage = edge.stage(2, worker_type="ar")
    held = gate(stage.connector, "get", after=True)
    request = edge.request()
    put_raw(edge, request, OmniPayloadStruct(meta=MetaStruct(), codes=CodesStruct(audio=torch.tensor([1]))))
    stage.adapter.load_async(request)
    held.wait()
    stage.adapter.cleanup_receiver(request.request_id)
    held.release()
    edge.wait_clean(stage)


def test_cached_ar_requests_are_given_their_information_once():
    request = SimpleNamespace(additional_information={"a": 1})
    output = SimpleNamespace(scheduled_cached_reqs=SimpleNamespace(req_ids=["R", "gone"]))
    parking.ChunkParking.attach_cached_additional_information(output, {"R": request})
    assert output.scheduled_cached_reqs.additional_information == {"R": {"a": 1}, "gone": None}
    assert request.additional_information is None


def test_the_active_window_admits_in_order_and_frees_its_slot(edge):
    stage = edge.stage(2, active_stream_window=1)
    first, second = edge.request("first"), edge.request("second", status=RequestStatus.RUNNING)
    third = edge.request("third")
    stage.admit(first)
    stage.admit(third)
    stage.live[second.request_id] = second
    stage.adapter._active_streams[first.request_id] = first
    stage.running.append(second)
    stage.adapter.process_pending_chunks(stage.waiting, stage.running, scheduler_requests=stage.live)
    assert (list(stage.waiting), stage.running) == ([], [])
    assert set(stage.adapter._registered_load_entries) == {first.request_id}
    stage.adapter.restore_queues(stage.waiting, stage.running, stage.live)
    assert (list(stage.waiting), stage.running) == ([first, third], [second])
    stage.finish(first)
    stage.tick()
    assert set(stage.adapter._active_streams) == {second.request_id}
    stage.live.clear()
    stage.tick()
    edge.wait_clean(stage)
