"""Guard of the save thread: one item that raises must not end it."""

import uuid
from types import SimpleNamespace

import pytest

from omni_verify.pipeline.transfer_adapter import OmniChunkTransferAdapter

BOUND_S = 10.0


@pytest.fixture
def adapter():
    scope = f"ovm{uuid.uuid4().hex[:10]}"
    model = SimpleNamespace(
        stage_id=1,
        worker_type="ar",
        async_chunk=True,
        stage_connector_config={"name": "SharedMemoryConnector", "extra": {"wakeup_scope": scope}},
    )
    made = OmniChunkTransferAdapter(
        SimpleNamespace(model_config=model, scheduler_config=SimpleNamespace(max_num_seqs=4))
    )
    yield made
    made.shutdown()


@pytest.mark.invariant("I37b")
def test_an_item_that_raises_does_not_end_the_save_thread(adapter):
    calls = []

    def cleanup_prefix(prefix):
        calls.append(prefix)
        if len(calls) == 1:
            raise OSError("injected: the directory cannot be listed")
        return 0

    adapter.connector.cleanup_prefix = cleanup_prefix
    for request_id in ("first", "second"):
        adapter.release_shm_resources(request_id)
    for _ in range(int(BOUND_S / 0.05)):
        if not adapter._pending_releases or not adapter.save_thread.is_alive():
            break
        adapter.save_thread.join(0.05)
    assert adapter.save_thread.is_alive()
    assert calls == ["first_1_", "second_1_"]
