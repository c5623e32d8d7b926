"""A lost chunk ends the stream on both sides: recorded for S, and an error terminal for the consumer."""

from __future__ import annotations

import pytest

from omni_verify.pipeline.request import RequestStatus
from omni_verify.pipeline.transfer_adapter import failed_stream


def fail_put(stage, *, key_end, create=False, error=None, times=1):
    """Let the next ``times`` puts of a key fail; with ``create`` the object exists all the same."""
    real, left = stage.connector.put, [times]

    def put(**arguments):
        if arguments["put_key"].endswith(key_end) and left[0]:
            left[0] -= 1
            if create:
                real(**arguments)
            if error is not None:
                raise error
            return False, 0, None
        return real(**arguments)

    stage.connector.put = put


@pytest.mark.parametrize("lost", [0, 1, 2])
@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("error", [None, RuntimeError("broken pipe")])
def test_a_failed_put_is_never_papered_over(edge, lost, create, error):
    fail_put(edge.producer, key_end=f"_1_{lost}", create=create, error=error)
    sent, received = edge.request(internal="internal"), edge.request()
    for step in range(3):
        edge.producer.save(sent, [step], last=step == 2)
    edge.producer.drain()
    assert sent.request_id in edge.producer.adapter.collect_failed_send_request_ids()  # W31
    prompts, failure = edge.consumer.receive(received)
    assert prompts == [[step] for step in range(lost)]
    assert "connector.put" in failure
    edge.consumer.abort(received)
    edge.wait_clean()  # the duplicate error terminal included, without any abort of the producer


def test_a_chunk_that_was_created_and_read_before_its_put_failed(edge, gate):
    put = gate(edge.producer.connector, "put", after=True, error=RuntimeError("after create"))
    sent, received = edge.request(), edge.request()
    edge.producer.save(sent, [1])
    put.wait()
    assert edge.consumer.receive(received, chunks=1) == ([[1]], None)  # the consumer now waits at chunk 1
    put.release()
    prompts, failure = edge.consumer.receive(received)  # W34
    assert prompts == []
    assert "after create" in failure
    edge.producer.abort(sent)
    edge.consumer.abort(received)
    edge.wait_clean()


@pytest.mark.parametrize("last", [False, True])
def test_a_processor_that_raises_surfaces_the_loss(edge, last):
    sent, received = edge.request(), edge.request()
    edge.producer.save(sent, [1])
    edge.producer.save(sent, {"boom": True}, last=last)
    if not last:
        edge.producer.save(sent, [3], last=True)
    edge.producer.drain()
    assert "boom" in edge.producer.adapter.collect_failed_send_request_ids()[sent.request_id]
    prompts, failure = edge.consumer.receive(received)  # W26
    assert prompts == [[1]]
    assert "boom" in failure
    edge.consumer.abort(received)
    edge.wait_clean()


@pytest.mark.parametrize("create", [False, True])
def test_a_failed_terminal_without_any_abort_is_reclaimed(edge, create):
    fail_put(edge.producer, key_end="_1_1", create=create)
    sent = edge.request()
    edge.producer.save(sent, [1])
    edge.producer.save(sent, [2], last=True)
    edge.wait_clean(edge.producer)  # I35: nobody read, nobody aborted
    assert sent.request_id in edge.producer.adapter.collect_failed_send_request_ids()


@pytest.mark.parametrize("create", [False, True])
def test_an_abort_reclaims_a_failed_stream_at_once(edge, create, monkeypatch):
    monkeypatch.setattr(failed_stream, "LINGER_S", 3600.0)
    fail_put(edge.producer, key_end="_1_1", create=create)
    sent = edge.request()
    edge.producer.save(sent, [1])
    edge.producer.save(sent, [2], last=True)
    edge.producer.drain()
    edge.producer.abort(sent)
    edge.wait_clean(edge.producer)


def test_the_scheduler_ending_with_an_error_leaves_the_consumer_its_error_terminal(edge, monkeypatch):
    monkeypatch.setattr(failed_stream, "LINGER_S", 3600.0)
    fail_put(edge.producer, key_end="_1_1")
    sent, received = edge.request(), edge.request()
    edge.producer.save(sent, [1])
    edge.producer.save(sent, [2])
    edge.producer.drain()
    edge.producer.abort(sent, status=RequestStatus.FINISHED_ERROR)
    prompts, failure = edge.consumer.receive(received)
    assert prompts == [[1]]
    assert failure
    edge.producer.adapter.release_shm_resources(sent.request_id)
    edge.consumer.abort(received)
    edge.wait_clean()


def test_a_refused_error_terminal_is_repeated_until_accepted(edge):
    fail_put(edge.producer, key_end="_1_1", times=5)
    sent, received = edge.request(), edge.request()
    edge.producer.save(sent, [1])
    edge.producer.save(sent, [2])
    prompts, failure = edge.consumer.receive(received)
    assert prompts == [[1]]
    assert failure
    edge.producer.abort(sent)
    edge.consumer.abort(received)
    edge.wait_clean()


def test_a_connector_that_refuses_for_ever_bounds_the_attempts(edge, monkeypatch, until):
    monkeypatch.setattr(failed_stream, "FIRST_RETRY_S", 0.0001)
    attempts = []
    edge.producer.connector.put = lambda **k: attempts.append(k["put_key"]) or (False, 0, None)
    sent = edge.request()
    edge.producer.save(sent, [1], last=True)
    edge.wait_clean(edge.producer)
    assert len(attempts) == 1 + 2 * failed_stream.ERROR_TERMINAL_ATTEMPTS


def test_a_failed_stream_admits_nothing_and_its_id_is_free_afterwards(edge):
    fail_put(edge.producer, key_end="_1_0")
    sent, other, received = edge.request(), edge.request(internal="other"), edge.request()
    edge.producer.save(sent, [1])
    edge.producer.drain()
    edge.producer.adapter.collect_failed_send_request_ids()
    appended = edge.producer.adapter._pending_save_reqs.appended
    edge.producer.save(other, [2])
    assert other.request_id in edge.producer.adapter.collect_failed_send_request_ids()
    assert edge.producer.adapter._pending_save_reqs.appended == appended
    assert not edge.producer.adapter.has_active_sender(sent.external_req_id)
    edge.producer.abort(sent)
    edge.wait_clean(edge.producer)
    edge.producer.save(edge.request(internal="third"), [3], last=True)
    assert edge.consumer.receive(received) == ([[3]], None)
