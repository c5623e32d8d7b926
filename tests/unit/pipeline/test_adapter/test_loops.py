"""The two threads: they survive their connector, sleep cheaply and leave nothing at shutdown."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from omni_verify.errors import UsageError
from omni_verify.pipeline.transfer_adapter import OmniChunkTransferAdapter, arrival, stage_receives_chunks


def test_no_exception_of_the_connector_ends_a_thread(edge, until):
    calls = []

    def broken(name):
        def call(*args, **kwargs):
            calls.append(name)
            raise RuntimeError(f"{name} is broken")

        return call

    producer, consumer = edge.producer, edge.consumer
    reap = producer.connector.reap_consumed
    for name in ("reap_consumed", "cleanup", "cleanup_prefix"):
        setattr(producer.connector, f"real_{name}", getattr(producer.connector, name))
        setattr(producer.connector, name, broken(name))
    get = consumer.connector.get
    consumer.connector.get = broken("get")
    consumer.connector.wait_for_change = broken("wait_for_change")
    sent, received = edge.request(), edge.request()
    consumer.admit(received)
    consumer.tick()
    producer.save(sent, [1])
    producer.drain()
    producer.adapter.release_shm_resources(edge.request("gone").request_id)
    producer.drain()
    until(lambda: {"reap_consumed", "cleanup_prefix", "get", "wait_for_change"} <= set(calls))
    assert producer.adapter.save_thread.is_alive()  # W11
    assert consumer.adapter.recv_thread.is_alive()
    for name in ("cleanup", "cleanup_prefix"):
        setattr(producer.connector, name, getattr(producer.connector, f"real_{name}"))
    producer.connector.reap_consumed, consumer.connector.get = reap, get
    producer.save(sent, [2], last=True)
    assert consumer.receive(received) == ([[1], [2]], None)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("after", [False, True])
def test_shutdown_with_a_put_in_flight_leaves_nothing(edge, gate, until, after, last):
    put = gate(edge.producer.connector, "put", after=after)
    request = edge.request()
    edge.producer.save(request, [1], last=last)
    put.wait()
    edge.producer.adapter.shutdown()  # bounded, although V is held (W10)
    put.release()
    edge.producer.adapter.save_thread.join(20)
    assert not edge.producer.adapter.save_thread.is_alive()
    edge.wait_clean(edge.producer)


def test_shutdown_is_idempotent_and_refuses_later_chunks(edge):
    adapter = edge.producer.adapter
    adapter.shutdown()
    adapter.shutdown()
    request = edge.request()
    edge.producer.save(request, [1])
    assert "shut down" in adapter.collect_failed_send_request_ids()[request.request_id]


def test_the_mode_of_the_stage_must_be_said():
    with pytest.raises(UsageError, match="async_chunk"):
        OmniChunkTransferAdapter(
            SimpleNamespace(model_config=SimpleNamespace(stage_id=1), scheduler_config=None)
        )
    config = SimpleNamespace(
        async_chunk=True, stage_connector_config={"name": None, "extra": {"role": "sender"}}
    )
    assert not stage_receives_chunks(config)
    assert not stage_receives_chunks(SimpleNamespace(async_chunk=False))


def test_a_stage_without_upstream_registers_nothing(edge):
    first = edge.stage(0)
    first.adapter.load_async(edge.request())
    assert not first.adapter._registered_load_entries


def test_the_processor_is_imported_by_its_dotted_path(edge):
    stage = edge.stage(1, custom_process_next_stage_input_func="omni_verify.contracts.payload_schema.to_dict")
    assert stage.adapter.custom_process_next_stage_input_func is not None
    with pytest.raises(UsageError, match="nowhere"):
        edge.stage(1, custom_process_next_stage_input_func="omni_verify.nowhere.function")


class FakeWait:
    """An adapter for the sleeping rule alone: a connector whose hints are scripted."""

    def __init__(self, hints):
        self.hints, self.timeouts = list(hints), []
        self.connector = self
        self._pending_load_reqs = [object()]
        self.stop_event = SimpleNamespace(is_set=lambda: False)
        self.wait = arrival.ArrivalWait(self)

    def get_wakeup_generation(self):
        return 0

    def wait_for_change(self, generation, *, timeout):
        self.timeouts.append(timeout)
        return self.hints.pop(0) if self.hints else False

    def interrupt_wait(self):
        self.timeouts.append("interrupted")

    def sleep(self):
        self.wait.wait(self.wait.snapshot())


def test_working_hints_let_the_fallback_back_off():
    adapter = FakeWait([])
    for _ in range(12):
        adapter.sleep()
    assert adapter.timeouts[0] == arrival.POLL_INTERVAL_S
    assert adapter.timeouts[-1] == arrival.LONGEST_HINTED_WAIT_S
    adapter.hints = [True]
    adapter.sleep()
    adapter.wait.progressed()
    adapter.sleep()
    assert adapter.timeouts[-1] == arrival.POLL_INTERVAL_S


def test_a_peer_without_hints_is_polled_at_the_short_interval():
    adapter = FakeWait([])
    for _ in range(5):
        adapter.sleep()
    adapter.wait.progressed()  # a chunk came, and no hint
    adapter.timeouts.clear()
    for _ in range(5):
        adapter.sleep()
    assert set(adapter.timeouts) == {arrival.POLL_INTERVAL_S}
    adapter.hints = [True]
    for _ in range(5):
        adapter.sleep()
    assert max(adapter.timeouts) > arrival.POLL_INTERVAL_S


@pytest.mark.parametrize("hints", ["1", "0"])
def test_results_do_not_depend_on_hints(monkeypatch, edge, hints):
    monkeypatch.setenv("VLLM_OMNI_SHM_WAKEUP", hints)
    producer, consumer = edge.stage(1), edge.stage(2)
    sent, received = edge.request("H"), edge.request("H")
    consumer.admit(received)
    for step in range(5):
        producer.save(sent, [step], last=step == 4)
    assert consumer.receive(received) == ([[step] for step in range(5)], None)  # I25
    consumer.finish(received)
    edge.wait_clean(producer, consumer)


def test_parked_requests_are_polled_rarely_while_hints_work(edge, until):
    polls = []
    real = edge.consumer.connector.get
    edge.consumer.connector.get = lambda *args: polls.append(time.monotonic()) or real(*args)
    requests = [edge.request(f"P{number}") for number in range(8)]
    for request in requests:
        edge.consumer.adapter.load_async(request)
    until(lambda: edge.consumer.adapter._arrival._pause >= arrival.LONGEST_HINTED_WAIT_S, "backed off")
    edge.producer.save(edge.request("P3"), [1], last=True)
    until(lambda: requests[3].prompt_token_ids == [1], "the hint ends the wait")
    for request in requests:
        edge.consumer.adapter.cleanup_receiver(request.request_id)
    edge.wait_clean()
