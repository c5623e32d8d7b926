"""Streams, aborts, releases and reuse on the sending side."""

from __future__ import annotations

import threading
from typing import ClassVar

import pytest

from omni_verify.pipeline.connector import OmniConnectorBase
from omni_verify.pipeline.factory import OmniConnectorFactory
from omni_verify.pipeline.request import RequestStatus


def test_a_stream_arrives_in_order_and_leaves_nothing(edge):
    sent, received = edge.request(), edge.request()
    edge.consumer.admit(received)
    for step in range(20):
        edge.producer.save(sent, [step, step + 100], last=step == 19)
    prompts, failure = edge.consumer.receive(received)
    assert failure is None
    assert prompts == [[step, step + 100] for step in range(20)]
    edge.consumer.finish(received)
    edge.wait_clean()
    assert not edge.producer.adapter.collect_failed_send_request_ids()


def test_a_terminal_without_codes_ends_the_stream(edge):
    sent, received = edge.request(), edge.request()
    edge.producer.save(sent, [1])
    edge.producer.save(sent, None, last=True)
    prompts, failure = edge.consumer.receive(received)
    assert (prompts, failure) == ([[1], []], None)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("after", [True, False])
def test_abort_returns_before_the_put_in_flight_and_leaves_nothing(edge, gate, after, known):
    put = gate(edge.producer.connector, "put", after=after)
    request = edge.request(internal="internal")
    edge.producer.save(request, [1])
    put.wait()
    edge.producer.abort(request, known=known)  # I29: returns although the put is held
    assert not put.released.is_set()
    put.release()
    edge.wait_clean(edge.producer)


def test_a_chunk_cancelled_in_the_processor_is_not_put(edge, gate):
    puts = []
    real = edge.producer.connector.put
    edge.producer.connector.put = lambda **k: puts.append(k["put_key"]) or real(**k)
    processor = gate(edge.producer.adapter, "custom_process_next_stage_input_func")
    request = edge.request()
    edge.producer.save(request, [1])
    processor.wait()
    edge.producer.abort(request)
    processor.release()
    edge.producer.drain()
    assert puts == []
    edge.wait_clean(edge.producer)


def test_no_lock_is_held_across_processor_and_put(edge, gate):
    adapter = edge.producer.adapter
    for owner, name in ((adapter, "custom_process_next_stage_input_func"), (edge.producer.connector, "put")):
        held = gate(owner, name)
        request = edge.request(name)
        edge.producer.save(request, [1])
        held.wait()
        for lock in (adapter._sender_state_lock, adapter._receiver_state_lock, adapter._send_failure_lock):
            assert lock.acquire(timeout=5)
            lock.release()
        held.release()
        edge.producer.drain()
        edge.producer.abort(request)


def test_a_queued_terminal_outlives_cleanup_and_then_frees_the_state(edge, gate):
    processor = gate(edge.producer.adapter, "custom_process_next_stage_input_func")
    sent, received = edge.request(), edge.request()
    edge.producer.save(sent, [1])
    processor.wait()
    edge.producer.save(sent, [2])
    edge.producer.save(sent, [3], force_request_finished=True)  # a parked session ends (I13, I34)
    edge.producer.abort(sent, status=RequestStatus.FINISHED_STOPPED)
    processor.release()
    prompts, failure = edge.consumer.receive(received)
    assert (prompts, failure) == ([[1], [2], [3]], None)
    edge.consumer.finish(received)
    edge.wait_clean()


def test_a_sent_terminal_is_retained_until_the_release(edge):
    request = edge.request()
    edge.producer.save(request, [1])
    edge.producer.save(request, [2], last=True)
    edge.producer.drain()
    edge.producer.abort(request)
    edge.producer.drain()
    assert len([name for name in edge.files() if not name.endswith(".lock")]) == 2  # I33
    edge.producer.adapter.release_shm_resources(request.request_id)
    edge.wait_clean(edge.producer)  # I50, W19


def test_a_release_during_the_drain_takes_the_terminal_too(edge, gate):
    put = gate(edge.producer.connector, "put", after=True)
    request = edge.request()
    edge.producer.save(request, [1], last=True)
    put.wait()
    edge.producer.abort(request)
    edge.producer.adapter.release_shm_resources(request.request_id)
    put.release()
    edge.wait_clean(edge.producer)


def test_a_release_spares_a_live_stream_and_precedes_the_next(edge, gate):
    old, new, received = edge.request(), edge.request(), edge.request()
    edge.producer.save(old, [1], last=True)
    edge.producer.drain()
    prefix = gate(edge.producer.connector, "cleanup_prefix")
    edge.producer.adapter.release_shm_resources(old.request_id)
    prefix.wait()
    edge.producer.save(new, [2])  # W9: refused while the release is pending
    assert new.request_id in edge.producer.adapter.collect_failed_send_request_ids()
    prefix.release()
    edge.producer.drain()
    newer = edge.request()  # a refused request stays refused
    edge.producer.save(newer, [3])
    edge.producer.drain()
    edge.producer.adapter.release_shm_resources(old.request_id)  # late: the newer stream is live
    edge.producer.save(newer, [4], last=True)
    assert edge.consumer.receive(received) == ([[3], [4]], None)


def test_reuse_while_the_old_put_drains_is_refused_and_recorded(edge, gate):
    put = gate(edge.producer.connector, "put")
    old, new, received = edge.request(), edge.request(), edge.request()
    edge.producer.save(old, [1])
    put.wait()
    edge.producer.abort(old)
    edge.producer.save(new, [2])
    assert "draining" in edge.producer.adapter.collect_failed_send_request_ids()[new.request_id]  # I32
    put.release()
    edge.producer.drain()
    edge.producer.save(edge.request(), [3], last=True)  # the refused one stays refused
    assert edge.consumer.receive(received) == ([[3]], None)


def test_the_old_cleanup_precedes_the_new_put(edge, gate):
    busy = edge.request("busy")
    old, new, received = edge.request(), edge.request(), edge.request()
    edge.producer.save(old, [1])
    edge.producer.drain()
    put = gate(edge.producer.connector, "put")
    edge.producer.save(busy, [9])
    put.wait()  # V is busy with another stream
    edge.producer.abort(old)
    edge.producer.save(new, [2], last=True)
    put.release()
    edge.producer.drain()  # the consumer comes last: the key alone could not tell it old from new
    assert edge.consumer.receive(received) == ([[2]], None)  # I30
    edge.producer.abort(busy)


def test_unread_chunks_of_an_ended_stream_never_reach_the_next(edge):
    old, new, received = edge.request(), edge.request(), edge.request()
    for step in range(3):
        edge.producer.save(old, [step], last=step == 2)
    edge.producer.drain()
    edge.producer.save(new, [7])  # W20, I38c: no release came
    edge.producer.save(new, [8], last=True)
    edge.producer.drain()
    assert edge.consumer.receive(received) == ([[7], [8]], None)
    edge.consumer.finish(received)
    edge.wait_clean()


@pytest.mark.parametrize("saves", [0, 1])
def test_a_late_output_of_an_ended_request_is_refused_and_recorded(edge, saves):
    request, again = edge.request(), edge.request()
    for _ in range(saves):
        edge.producer.save(request, [1])
    edge.producer.abort(request)
    request.status = RequestStatus.RUNNING  # the late output still sees a running request
    edge.producer.save(request, [2])
    assert request.request_id in edge.producer.adapter.collect_failed_send_request_ids()  # W25
    edge.wait_clean(edge.producer)
    edge.producer.save(again, [3])  # another request may use the id
    assert edge.producer.adapter.has_active_sender(again.external_req_id)
    edge.producer.abort(again)


def test_the_last_stage_of_a_request_puts_nothing(edge):
    request = edge.request(final_stage_id=1)
    edge.producer.save(request, [1], last=True)
    assert edge.producer.adapter._pending_save_reqs.appended == 0  # W19


class DictConnector(OmniConnectorBase):
    """A third-party transport: one table for all stages, no key enumeration."""

    table: ClassVar[dict] = {}

    def __init__(self, config):
        self.config, self.stage_id = config, config["stage_id"]

    def put(self, from_stage, to_stage, put_key, data):
        self.table[put_key] = self.serialize_obj(data)
        return True, len(self.table[put_key]), {}

    def get(self, from_stage, to_stage, get_key, metadata=None):
        data = self.table.pop(get_key, None)
        return None if data is None else (self.deserialize_obj(data), len(data))

    def cleanup(self, request_id):
        return self.table.pop(request_id, None) is not None

    def health(self):
        return {}

    def close(self):
        pass


@pytest.fixture
def foreign(edge):
    name = f"Dict-{edge.prefix}"
    OmniConnectorFactory.register_connector(name, DictConnector)
    DictConnector.table.clear()
    yield edge.stage(1, connector=name)
    del OmniConnectorFactory._registry[name]


def test_a_third_party_connector_is_reclaimed_by_exact_key(edge, foreign):
    request, other = edge.request(), edge.request("R_1_2")
    for codes in ([1], [2]):
        foreign.save(request, codes)
        foreign.save(other, codes)
    foreign.drain()
    foreign.abort(request)
    foreign.drain()
    assert sorted(DictConnector.table) == [f"{other.external_req_id}_1_{k}" for k in (0, 1)]  # W17, I21
    foreign.save(other, [3], last=True)
    foreign.drain()
    foreign.adapter.release_shm_resources(other.request_id)
    foreign.drain()
    assert not DictConnector.table
    assert not edge.residue(foreign)


def test_segments_share_one_stream_and_a_late_frame_of_the_first_is_dropped(edge):
    sent, received = edge.request(resumable=True), edge.request(resumable=True)
    sent._omni_segment_generation = 0
    edge.producer.save(sent, [1])
    edge.producer.save(sent, [2], is_segment_finished=True)
    edge.producer.save(sent, [99], segment_generation=0)  # late
    sent._omni_segment_generation = 1
    sent.num_computed_tokens = 0
    edge.producer.adapter.save_async({"codes": [3]}, sent)  # below the first segment's watermark
    edge.producer.save(sent, [4], force_request_finished=True)
    edge.consumer.admit(received)
    assert edge.consumer.receive(received, chunks=2) == ([[1], [2]], None)
    edge.consumer.adapter.segment_finished_requests.discard(received.request_id)
    assert edge.consumer.receive(received) == ([[3], [4]], None)


def test_a_segment_end_without_a_counter_does_not_starve_the_stream(edge):
    sent = edge.request(resumable=True)
    edge.producer.save(sent, [1], is_segment_finished=True)
    edge.producer.save(sent, [2])  # vllm-omni#6816
    edge.producer.drain()
    assert edge.producer.adapter.put_req_chunk[sent.external_req_id] == 2
    edge.producer.abort(sent)


def test_a_replayed_step_after_preemption_is_dropped_silently(edge):
    sent = edge.request()
    edge.producer.save(sent, [1])
    edge.producer.adapter.save_async({"codes": [9]}, sent, confirmed_num_computed_tokens=0)
    edge.producer.drain()
    assert edge.producer.adapter.put_req_chunk[sent.external_req_id] == 1
    assert not edge.producer.adapter.collect_failed_send_request_ids()
    edge.producer.abort(sent)


def test_a_terminal_below_the_watermark_still_ends_the_stream(edge):
    sent, received = edge.request(), edge.request()
    edge.producer.save(sent, [1])
    sent.status = RequestStatus.FINISHED_STOPPED
    edge.producer.adapter.save_async({"codes": [1]}, sent, confirmed_num_computed_tokens=0)
    assert edge.consumer.receive(received) == ([[1], []], None)


def test_segment_numbers_change_under_the_sender_lock(edge):
    adapter, request = edge.producer.adapter, edge.request()
    with adapter._sender_state_lock:
        caller = threading.Thread(target=lambda: edge.producer.save(request, [1]))
        caller.start()
        caller.join(timeout=0.05)
        assert request.external_req_id not in adapter._segment_generation  # W14
    caller.join(timeout=20)
    assert request.external_req_id in adapter._segment_generation
    edge.producer.abort(request)
