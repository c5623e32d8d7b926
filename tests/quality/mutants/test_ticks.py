"""Guards of a scheduler tick: what a chunk and a step change, and what they leave alone."""

from types import SimpleNamespace

import pytest
import torch

from omni_verify.pipeline.request import Request, RequestStatus


@pytest.mark.invariant("I43")
def test_a_step_clears_the_ready_markers_of_the_requests_it_ran_and_of_no_other(adapter):
    adapter.requests_with_ready_chunks.update({"new", "cached", "held"})
    step = SimpleNamespace(
        scheduled_new_reqs=[SimpleNamespace(req_id="new")],
        scheduled_cached_reqs=SimpleNamespace(req_ids=["cached"], additional_information={}),
    )
    adapter.postprocess_scheduler_output(step, {})
    assert adapter.requests_with_ready_chunks == {"held"}


@pytest.mark.invariant("I47")
def test_the_last_chunk_exhausts_the_stream_and_leaves_the_request_to_the_scheduler(adapter):
    request = Request("R", status=RequestStatus.WAITING_FOR_CHUNK)
    payload = {"codes": {"audio": torch.tensor([7, 8])}, "meta": {"finished": torch.tensor(True)}}
    with adapter._receiver_state_lock:
        adapter._commit_received_chunk(
            request, (payload, 1), stage_id=2, req_id="R", chunk_id=0, connector_get_key="R_1_0"
        )
    assert adapter.is_done_receiving_chunks("R")
    assert request.status is RequestStatus.WAITING_FOR_CHUNK and request.prompt_token_ids == [7, 8]
