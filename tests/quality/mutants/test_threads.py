"""Guard of the save thread: one item that raises must not end it."""

import pytest

BOUND_S = 10.0


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
    assert calls == ["first_2_", "second_2_"]
