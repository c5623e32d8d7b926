"""Guards of what an endpoint decides before any engine work."""

import pytest

from omni_verify.pipeline.serving.errors import ApiError
from omni_verify.pipeline.serving.jobs import output_kind_for, request_params
from omni_verify.pipeline.serving.refusals import ServedModel, check_speech_request
from omni_verify.pipeline.serving.schemas import SpeechRequest
from omni_verify.pipeline.stages.params import RequestOutputKind, SamplingParams


@pytest.mark.invariant("I41")
def test_a_request_that_accumulates_leaves_the_shared_parameters_alone():
    defaults = [SamplingParams(stop_token_ids=[7]), SamplingParams()]
    own = request_params(defaults, RequestOutputKind.CUMULATIVE)
    own[0].stop_token_ids.append(8)
    assert [p.output_kind for p in own] == [RequestOutputKind.CUMULATIVE] * 2
    assert defaults == [SamplingParams(stop_token_ids=[7]), SamplingParams()]


@pytest.mark.invariant("I49")
def test_word_timestamps_need_the_whole_audio_at_the_end():
    assert output_kind_for(stream=True, word_timestamps=True) is RequestOutputKind.CUMULATIVE
    assert output_kind_for(stream=True, word_timestamps=False) is RequestOutputKind.DELTA


@pytest.mark.invariant("I42b")
def test_word_timestamps_with_a_streaming_response_are_refused_over_http():
    model = ServedModel("tts", outputs=("audio", "timestamps"), is_chat=False, has_aligner=True)
    body = {"model": "tts", "input": "hello", "response_format": "pcm", "word_timestamps": True}
    check_speech_request(model, SpeechRequest(**body))
    with pytest.raises(ApiError, match="WebSocket"):
        check_speech_request(model, SpeechRequest(**body, stream=True))
