"""What each output kind hands out, step by step."""

from __future__ import annotations

import pytest
import torch

from omni_verify.errors import UsageError
from omni_verify.pipeline.orchestration.accumulation import (
    OutputAccumulator,
    consolidate_audio,
    latest_sample_rate,
)
from omni_verify.pipeline.stages.messages import FinishReason, StageOutput
from omni_verify.pipeline.stages.params import RequestOutputKind, SamplingParams


def audio_output(value, length, *, finished=False):
    return StageOutput(
        1, "R", multimodal_output={"audio": torch.full((length,), value), "sr": 24000}, finished=finished
    )


def steps():
    return [audio_output(1.0, 800), audio_output(2.0, 1200), audio_output(3.0, 400, finished=True)]


def audio_lengths(kind):
    accumulator = OutputAccumulator(kind)
    emitted = [accumulator.add(step) for step in steps()]
    return [None if out is None else out.outputs[0].multimodal_output["audio"].numel() for out in emitted]


def test_the_three_kinds():
    assert audio_lengths(RequestOutputKind.DELTA) == [800, 1200, 400]
    assert audio_lengths(RequestOutputKind.CUMULATIVE) == [800, 2000, 2400]
    assert audio_lengths(RequestOutputKind.FINAL_ONLY) == [None, None, 2400]


def test_consolidation_keeps_the_order_of_the_pieces():
    accumulator = OutputAccumulator(RequestOutputKind.FINAL_ONLY)
    for step in steps():
        last = accumulator.add(step)
    audio = last.outputs[0].multimodal_output["audio"]
    assert [audio[i].item() for i in (0, 799, 800, 1999, 2000, 2399)] == [1, 1, 2, 2, 3, 3]
    assert consolidate_audio([]).numel() == 0


def test_several_pieces_before_one_delta_stay_a_list():
    accumulator = OutputAccumulator(RequestOutputKind.DELTA)
    pieces = [torch.ones(3), torch.ones(4)]
    out = accumulator.add(StageOutput(1, "R", multimodal_output={"audio": pieces, "sr": 24000}))
    assert [len(piece) for piece in out.outputs[0].multimodal_output["audio"]] == [3, 4]


def test_delta_metadata_of_one_chunk_does_not_leak_into_the_next():
    accumulator = OutputAccumulator(RequestOutputKind.DELTA)
    first = StageOutput(1, "R", multimodal_output={"audio": torch.ones(3), "sr": 24000, "marker": 1})
    accumulator.add(first)
    second = accumulator.add(StageOutput(1, "R", multimodal_output={"audio": torch.ones(3)}))
    assert set(second.outputs[0].multimodal_output) == {"audio", "sr"}


def decode(ids):
    return bytes(ids).decode("utf-8", errors="replace")


def test_text_deltas_never_split_a_character():
    ids = list("aé€".encode())
    accumulator = OutputAccumulator(RequestOutputKind.DELTA, decode)
    texts = []
    for i, token in enumerate(ids):
        out = accumulator.add(StageOutput(0, "R", token_ids=[token], finished=i == len(ids) - 1))
        texts.append(out.outputs[0].text)
    assert "".join(texts) == "aé€"
    assert "\ufffd" not in "".join(texts)


def test_a_finish_is_emitted_even_when_it_brings_nothing():
    accumulator = OutputAccumulator(RequestOutputKind.DELTA)
    out = accumulator.add(StageOutput(1, "R", finished=True, finish_reason=FinishReason.STOP))
    assert out.finished
    assert accumulator.add(StageOutput(1, "R")) is None


def test_sample_rate_spellings():
    assert latest_sample_rate([16000, 24000]) == 24000
    assert latest_sample_rate(torch.tensor([16000, 24000])) == 24000
    assert latest_sample_rate(torch.tensor(24000)) == 24000
    assert latest_sample_rate(None) is None
    assert latest_sample_rate([]) is None


def test_cloned_parameters_share_nothing():
    shared = SamplingParams(stop_token_ids=[1], extra_args={"a": [1]})
    clone = shared.clone()
    clone.output_kind = RequestOutputKind.CUMULATIVE
    clone.stop_token_ids.append(2)
    clone.extra_args["a"].append(2)
    assert shared == SamplingParams(stop_token_ids=[1], extra_args={"a": [1]})


@pytest.mark.parametrize(
    "values", [{"max_tokens": "5"}, {"max_tokens": True}, {"max_tokens": 0}, {"nope": 1}, {"seed": 1.5}]
)
def test_wrong_parameters_name_themselves(values):
    with pytest.raises(UsageError, match=next(iter(values))):
        SamplingParams.from_mapping(values)
