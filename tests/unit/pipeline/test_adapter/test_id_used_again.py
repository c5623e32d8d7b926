"""An id that is used again while its last stream ends is refused, whatever ends it (I30, I32, I36)."""

from __future__ import annotations

from omni_verify.pipeline.stages.core import release_is_done


def refused(edge, request):
    return "draining" in edge.producer.adapter.collect_failed_send_request_ids().get(request.request_id, "")


def test_a_new_request_does_not_join_a_stream_whose_terminal_is_queued(edge, gate):
    put = gate(edge.producer.connector, "put")
    old, new = edge.request(), edge.request()
    edge.producer.save(old, [1])
    put.wait()
    edge.producer.save(old, [2], last=True)  # queued behind the put
    edge.producer.save(new, [9])
    put.release()
    edge.producer.drain()
    assert refused(edge, new)
    assert edge.producer.connector.get("1", "2", f"{old.external_req_id}_1_2") is None
    edge.producer.adapter.release_shm_resources(old.request_id)
    edge.producer.drain()
    edge.wait_clean()


def test_a_request_that_was_refused_because_the_last_one_failed_sends_nothing_later(edge, gate):
    put = gate(edge.producer.connector, "put", error=OSError("no space"))
    old, new = edge.request(), edge.request()
    edge.producer.save(old, [1])
    put.wait()
    edge.producer.adapter._sender_tokens[old.external_req_id].failure = "connector.put reported failure"
    edge.producer.save(new, [2])
    assert refused(edge, new)
    put.release()
    edge.producer.abort(old)
    edge.producer.drain()
    edge.producer.save(new, [3], last=True)
    edge.producer.drain()
    edge.wait_clean()


def test_a_premature_release_takes_nothing_from_the_consumer_of_a_failed_stream(edge, gate):
    gate(edge.producer.connector, "put", error=OSError("no space")).release()
    request, received = edge.request(), edge.request()
    edge.producer.save(request, [1])
    edge.producer.drain()
    edge.producer.adapter.release_shm_resources(request.request_id)
    edge.producer.drain()
    _, error = edge.consumer.receive(received)
    assert "no space" in error
    edge.producer.save(request, last=True)
    edge.producer.adapter.release_shm_resources(request.request_id)
    edge.wait_clean(edge.producer)


def test_a_receive_failure_that_nobody_took_does_not_end_the_next_request_of_the_id(edge):
    old = edge.request()
    edge.consumer.admit(old)
    edge.consumer.adapter.record_receive_failure(old.request_id, "the producer failed the stream")
    edge.consumer.abort(old)  # in the same tick, before the failure was taken
    assert edge.consumer.adapter.collect_failed_receive_request_ids() == {}


def test_a_release_of_a_draining_stream_is_done_only_when_its_keys_are_gone(edge, gate):
    """The stream retires before its reclaim runs; confirmed in between, the id would be used again while a
    reader can still find an old chunk (I50, I38c)."""
    put, cleanup = gate(edge.producer.connector, "put", after=True), gate(edge.producer.connector, "cleanup")
    request = edge.request()
    edge.producer.save(request, [1])
    put.wait()
    edge.producer.abort(request)
    edge.producer.adapter.release_shm_resources(request.request_id)
    put.release()
    cleanup.wait()  # retired, and the first key is about to go
    assert edge.files()
    assert not release_is_done(edge.producer.adapter, request.external_req_id)
    cleanup.release()
    edge.producer.drain()
    assert release_is_done(edge.producer.adapter, request.external_req_id)
    assert edge.files() == []
