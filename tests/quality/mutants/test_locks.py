"""Guard of the lock files: whoever holds one can rely on it."""

import os
import uuid

import pytest

from omni_verify.contracts.keys import file_name, lock_path, segment_path
from omni_verify.pipeline.lockfile import acquire
from omni_verify.pipeline.shm_connector import SharedMemoryConnector


@pytest.mark.invariant("I26")
def test_cleanup_leaves_an_object_alone_while_its_lock_is_held():
    key = f"ovm{uuid.uuid4().hex[:10]}_1_0"
    name = file_name(key)
    with SharedMemoryConnector({"stage_id": 1, "wakeup_scope": key, "lock_timeout_s": 0.05}) as connector:
        assert connector.put("1", "2", key, {"codes": [1, 2]})[0]
        held = acquire(lock_path(name), 1.0)
        assert held is not None
        try:
            assert connector.cleanup(key) is False
            assert os.path.exists(lock_path(name)) and os.path.exists(segment_path(name))
        finally:
            held.release()
        assert connector.cleanup(key) is True
        assert not os.path.exists(lock_path(name)) and not os.path.exists(segment_path(name))
