"""The processors of the Thinker's edge, the full payloads, and the details of the codec edge."""

from types import SimpleNamespace

import pytest
import torch

from omni_verify.contracts.codec_layout import wire_order
from omni_verify.contracts.payload_schema import to_dict, validate_payload
from omni_verify.pipeline.processors import (
    concat_outputs,
    talker2code2wav_async_chunk,
    talker2code2wav_full_payload,
    talker_prompt_len,
    thinker2talker_async_chunk,
    thinker2talker_full_payload,
    thinker2talker_token_only,
)
from omni_verify.pipeline.processors.prompts import ASSISTANT, IM_START, SYSTEM, USER


class Sender:
    """The sending state of one stream as the adapter keeps it."""

    def __init__(self, **extra):
        self.put_req_chunk, self.ramp_chunk_count = {}, {}
        self.code_prompt_token_ids, self.request_payload, self._pending_streaming_prefills = {}, {}, {}
        self.connector = SimpleNamespace(config={"extra": extra})
        self.hf_config = SimpleNamespace(talker_config={"accept_hidden_layer": 5})

    def put(self, payload, ext="R"):
        if payload is not None:
            self.put_req_chunk[ext] = self.put_req_chunk.get(ext, 0) + 1
            self.ramp_chunk_count[ext] = self.ramp_chunk_count.get(ext, 0) + 1
        return payload

    def end_segment(self, ext="R"):
        self.ramp_chunk_count.pop(ext, None)


def request(prompt=(1, 2, 3), output=(), *, resumable=False, **info):
    return SimpleNamespace(
        external_req_id="R",
        prompt_token_ids=list(prompt),
        output_token_ids=list(output),
        resumable=resumable,
        additional_information=info or None,
        sampling_params=SimpleNamespace(stop_token_ids=[2150]),
    )


def rows(*positions, keys=(0, 5), special=False):
    column = torch.tensor(positions, dtype=torch.float32).unsqueeze(1)
    output = {"hidden_states": {"layers": {keys[0]: column.repeat(1, 2), keys[1]: column.repeat(1, 2) + 100}}}
    if special:
        output["embed"] = {
            "tts_bos": torch.zeros(1, 2),
            "tts_eos": torch.ones(1, 2),
            "tts_pad": torch.ones(1, 2),
        }
    return output


def positions(tensor):
    return tensor[:, 0].tolist()


def test_the_first_chunk_waits_for_the_first_generated_position():
    sender = Sender()
    assert thinker2talker_async_chunk(sender, rows(0, 1), request()) is None
    assert thinker2talker_async_chunk(sender, rows(2), request(output=[9])) is None
    payload = thinker2talker_async_chunk(
        sender, rows(3, special=True), request(output=[9, 8], speaker="Ethan", language="en")
    )
    assert positions(payload.embed.prefill) == [0, 1, 2, 3]
    assert positions(payload.hidden_states.output) == [100, 101, 102, 103]
    assert (payload.ids.all, payload.ids.prompt) == ([1, 2, 3, 9, 8], [1, 2, 3])
    assert (payload.speaker, payload.language) == ("Ethan", "en")
    assert bool(payload.meta.finished) is False
    assert positions(payload.embed.tts_eos) == [1]
    validate_payload(to_dict(payload))


def test_a_first_step_that_reaches_past_the_prompt_leaves_at_once():
    assert positions(thinker2talker_async_chunk(Sender(), rows(0, 1, 2, 3), request()).embed.prefill) == [
        0,
        1,
        2,
        3,
    ]


def test_an_end_before_the_first_position_sends_what_there_is():
    sender = Sender()
    assert thinker2talker_async_chunk(sender, rows(0), request()) is None
    payload = thinker2talker_async_chunk(sender, None, request(), True)
    assert positions(payload.embed.prefill) == [0]
    assert bool(payload.meta.finished) is True


def test_nothing_at_all_sends_nothing():
    assert thinker2talker_async_chunk(Sender(), None, request(), True) is None
    assert (
        thinker2talker_async_chunk(Sender(), {"hidden_states": {"layers": {0: torch.ones(1, 2)}}}, request())
        is None
    )


def test_layers_may_have_string_keys():
    assert thinker2talker_async_chunk(Sender(), rows(0, 1, 2, 3, keys=("0", "5")), request()) is not None


def test_a_decode_step_of_several_rows_sends_all_of_them():
    sender = Sender()
    sender.put(thinker2talker_async_chunk(sender, rows(0, 1, 2, 3), request()))
    one = sender.put(thinker2talker_async_chunk(sender, rows(4), request()))
    three = sender.put(thinker2talker_async_chunk(sender, rows(5, 6, 7), request(), True))
    assert (positions(one.embed.decode), positions(three.embed.decode)) == ([4], [5, 6, 7])
    assert one.embed.prefill is None
    assert (bool(one.meta.finished), bool(three.meta.finished)) == (False, True)
    assert thinker2talker_async_chunk(sender, rows(), request()) is None
    assert thinker2talker_async_chunk(sender, None, request(), True) is None


def test_a_first_chunk_whose_put_failed_is_offered_again_with_all_rows():
    sender = Sender()
    thinker2talker_async_chunk(sender, rows(0, 1, 2, 3), request())
    assert positions(thinker2talker_async_chunk(sender, rows(4), request()).embed.prefill) == [0, 1, 2, 3, 4]


def test_a_later_segment_collects_its_own_prefill():
    sender = Sender()
    sender.put(thinker2talker_async_chunk(sender, rows(0, 1, 2, 3), request(resumable=True)))
    sender.put(thinker2talker_async_chunk(sender, rows(4), request(resumable=True), True))
    sender.end_segment()
    longer = [1, 2, 3, 9, 9, 7, 7]
    assert thinker2talker_async_chunk(sender, rows(5), request(longer, resumable=True)) is None
    assert thinker2talker_async_chunk(sender, rows(6), request(longer, [8], resumable=True)) is None
    payload = sender.put(thinker2talker_async_chunk(sender, rows(7), request(longer, [8, 8], resumable=True)))
    assert positions(payload.embed.prefill) == [5, 6, 7]
    after = thinker2talker_async_chunk(sender, rows(8), request(longer, [8, 8, 8], resumable=True))
    assert positions(after.embed.decode) == [8]
    assert sender._pending_streaming_prefills == {}
    assert sender.request_payload == {}


def test_rows_of_unequal_number_are_refused():
    output = {"hidden_states": {"layers": {0: torch.ones(2, 2), 5: torch.ones(1, 2)}}}
    with pytest.raises(ValueError, match="2 embedding rows but 1 hidden rows"):
        thinker2talker_async_chunk(Sender(), output, request())


def test_the_full_payload_leaves_out_the_row_of_the_stop_token_only():
    for given, kept in [((0, 1, 2, 3, 4), [0, 1, 2, 3]), ((0, 1, 2, 3), [0, 1, 2, 3])]:
        payload = thinker2talker_full_payload(Sender(), rows(*given), request(output=[9, 8]))
        assert positions(payload["embed"]["prefill"]) == kept
        assert positions(payload["hidden_states"]["output"]) == [100 + p for p in kept]
        assert bool(payload["meta"]["finished"])
        validate_payload(payload)
    assert positions(thinker2talker_full_payload(Sender(), rows(0), request([1]))["embed"]["prefill"]) == [0]
    assert thinker2talker_full_payload(Sender(), rows(), request(output=[9])) is None


def test_full_payload_and_chunks_carry_the_same_conditions():
    sender, chunks = Sender(), []
    for i in range(6):
        output = list(range(max(0, i - 1)))
        chunks.append(sender.put(thinker2talker_async_chunk(sender, rows(i), request(output=output), i == 5)))
    sent = [
        p
        for c in chunks
        if c
        for p in positions(c.embed.prefill if c.embed.prefill is not None else c.embed.decode)
    ]
    whole = thinker2talker_full_payload(
        sender, concat_outputs([rows(i) for i in range(6)]), request(output=range(4))
    )
    assert positions(whole["embed"]["prefill"]) == sent == [0, 1, 2, 3, 4, 5]


def test_the_full_codec_payload_keeps_what_is_in_the_codebook():
    codes = torch.tensor([[0, 0], [5, 6], [7, 2048], [8, 9], [2150, 0]])
    payload = talker2code2wav_full_payload(
        Sender(), {"codes": {"audio": codes}}, request(output=[5, 7, 8, 2150])
    )
    assert payload["codes"]["audio"] == wire_order([[5, 6], [8, 9]])
    assert payload["meta"]["left_context_size"] == 0
    assert bool(payload["meta"]["finished"])


def test_an_utterance_without_frames_still_ends():
    payload = talker2code2wav_full_payload(Sender(), None, request(output=[2150]))
    assert payload["codes"]["audio"] == []
    assert bool(payload["meta"]["finished"])


def test_the_placeholder_of_the_talker():
    prompt = [IM_START, SYSTEM, 1, IM_START, USER, 1, 2, IM_START, ASSISTANT]
    outputs = [SimpleNamespace(prompt_token_ids=prompt), SimpleNamespace(prompt_token_ids=[5])]
    first, second = thinker2talker_token_only(
        outputs, {"additional_information": {"speaker": "E", "text": "x"}}
    )
    assert first == {"prompt_token_ids": [0] * (4 + 9), "additional_information": {"speaker": "E"}}
    assert second["prompt_token_ids"] == [0]


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ([], 0),
        ([1, 2], 0),
        ([IM_START], 0),
        ([IM_START, SYSTEM, 1, 2], 0),
        ([IM_START, USER, 1, 2], 4),
        ([IM_START, USER, 1, IM_START, ASSISTANT], 3 + 9),
        ([IM_START, USER, 1, IM_START, ASSISTANT, 4, IM_START, USER], 3 + 2),
    ],
)
def test_the_length_of_the_talkers_prompt(prompt, expected):
    assert talker_prompt_len(prompt) == expected


def step(sender, codes, *, finished=False, **meta):
    return talker2code2wav_async_chunk(
        sender, {"codes": {"audio": torch.tensor(codes)}, "meta": meta}, request(), finished
    )


def test_the_first_audio_mark_is_the_models_own_and_only_on_chunk_0():
    sender = Sender(codec_chunk_frames=1)
    assert sender.put(step(sender, [[1, 1]], first_audio=True)).meta.first_audio is True
    assert sender.put(step(sender, [[2, 1]], first_audio=True)).meta.first_audio is None
    assert step(Sender(codec_chunk_frames=1), [[1, 1]]).meta.first_audio is None


def test_validity_flags_of_a_span_count_from_its_end():
    sender = Sender(codec_chunk_frames=1)
    assert step(sender, [[0, 0]], codec_frame_valid=torch.tensor([False, False, True])) is not None
    assert step(Sender(codec_chunk_frames=1), [[9, 9]], codec_frame_valid=torch.tensor([True, False])) is None
    with pytest.raises(ValueError, match="2 codec rows"):
        step(sender, [[1, 1], [2, 2]], codec_frame_valid=torch.tensor([]))


@pytest.mark.parametrize("codes", [[[0.5, 1.0]], [[[1, 2]]]])
def test_codes_must_be_rows_of_integers(codes):
    with pytest.raises(ValueError, match=r"codes\.audio must be integers"):
        step(Sender(), codes)


def test_one_frame_may_come_without_the_row_dimension():
    assert step(Sender(codec_chunk_frames=1), [3, 4]).codes.audio.tolist() == [3, 4]


def test_the_payload_fits_the_schema():
    payload = step(Sender(), [[1, 2]], finished=True)
    validate_payload(to_dict(payload))
    assert payload.codes.audio.dtype == torch.int64
    assert payload.meta.left_context_size == 0
