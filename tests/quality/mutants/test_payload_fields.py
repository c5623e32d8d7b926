"""Guards of what a chunk carries: every field arrives, and equal frames are not one frame."""

from types import SimpleNamespace

import pytest
import torch

from omni_verify.contracts.payload_schema import MetaStruct
from omni_verify.pipeline.processors import talker2code2wav_async_chunk
from omni_verify.pipeline.transfer_adapter.received import codes_update


@pytest.mark.invariant("I15")
@pytest.mark.parametrize("name", sorted(set(MetaStruct.__struct_fields__) - {"finished"}))
def test_every_field_of_meta_survives_the_merge(name):
    value = object()
    assert codes_update({"meta": {name: value}}, {"meta": {}}).information["meta"][name] is value


@pytest.mark.invariant("I13")
def test_silence_is_not_a_duplicate():
    manager = SimpleNamespace(
        put_req_chunk={},
        ramp_chunk_count={},
        code_prompt_token_ids={},
        connector=SimpleNamespace(config={"codec_chunk_frames": 25}),
    )
    request = SimpleNamespace(external_req_id="R", sampling_params=SimpleNamespace(stop_token_ids=[2150]))
    rows = torch.full((7, 4), 5)
    payload = talker2code2wav_async_chunk(manager, {"codes": {"audio": rows}}, request, True)
    assert payload.codes.audio.tolist() == [5] * 28
