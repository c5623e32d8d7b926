"""A request whose first chunk was refused sends nothing later: no stream begins in its middle (I36, I32)."""

from __future__ import annotations


def test_the_end_of_a_stream_whose_beginning_was_refused_is_refused_too(edge, gate):
    put = gate(edge.producer.connector, "put")
    old, new = edge.request(), edge.request()
    edge.producer.save(old, [1])
    put.wait()
    edge.producer.abort(old)
    edge.producer.save(new, [2])  # refused: the old put still runs
    put.release()
    edge.producer.drain()
    edge.producer.save(new, [3], last=True)
    edge.producer.drain()
    assert "draining" in edge.producer.adapter.collect_failed_send_request_ids()[new.request_id]
    edge.wait_clean()
