"""The marker by which a test names the invariants that it guards, and an adapter to guard.

`omni-verify mutants` reads the marker from the source.
"""

import uuid
from types import SimpleNamespace

import pytest

from omni_verify.pipeline.transfer_adapter import OmniChunkTransferAdapter


def pytest_configure(config):
    config.addinivalue_line("markers", "invariant(*ids): the invariants that this test guards")


@pytest.fixture
def adapter():
    """The transfer adapter of stage 2, a generation stage, with nothing to receive yet."""
    scope = f"ovm{uuid.uuid4().hex[:10]}"
    model = SimpleNamespace(
        stage_id=2,
        worker_type="generation",
        async_chunk=True,
        stage_connector_config={"name": "SharedMemoryConnector", "extra": {"wakeup_scope": scope}},
    )
    made = OmniChunkTransferAdapter(
        SimpleNamespace(model_config=model, scheduler_config=SimpleNamespace(max_num_seqs=4))
    )
    yield made
    made.shutdown()
