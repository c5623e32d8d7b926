"""What the endpoints decide before any engine work; no server and no pipeline is needed."""

from __future__ import annotations

import signal
import socket
from types import SimpleNamespace

import pytest

from omni_verify.pipeline.serving import chat, jobs, refusals, speech
from omni_verify.pipeline.serving.errors import ApiError, error_body
from omni_verify.pipeline.serving.refusals import ServedModel
from omni_verify.pipeline.serving.schemas import ChatCompletionRequest, SpeechRequest, SpeechSessionConfig
from omni_verify.pipeline.serving.server import run_server
from omni_verify.pipeline.stages.params import RequestOutputKind, SamplingParams

CHAT = ServedModel("chat", ("text", "audio"), is_chat=True, has_aligner=False, max_input_tokens=100)
TTS = ServedModel("tts", ("audio", "timestamps"), is_chat=False, has_aligner=True, max_input_tokens=100)
PLAIN_TTS = ServedModel("tts", ("audio",), is_chat=False, has_aligner=False)


def service(model, *, async_chunk=True):
    orchestrator = SimpleNamespace(async_chunk=async_chunk)
    return SimpleNamespace(
        model=model,
        defaults=[SamplingParams(seed=n, stop_token_ids=[n]) for n in range(3)],
        pipeline=SimpleNamespace(orchestrator=orchestrator),
    )


def kinds(job):
    return {params.output_kind for params in job.params}


def test_word_timestamps_in_a_stream_accumulate_on_clones_only():
    served = service(TTS)
    before = [params.clone() for params in served.defaults]
    job = speech.speech_job(served, "one two", stream=True, word_timestamps=True, seed=7)
    assert kinds(job) == {RequestOutputKind.CUMULATIVE}
    assert job.modalities == ["audio", "timestamps"]
    plain = speech.speech_job(served, "one two", stream=True, word_timestamps=False)
    assert kinds(plain) == {RequestOutputKind.DELTA}
    assert served.defaults == before
    assert not any(own is shared for own, shared in zip(job.params, served.defaults, strict=True))


@pytest.mark.parametrize(
    ("stream", "words", "full", "kind"),
    [
        (False, False, False, RequestOutputKind.FINAL_ONLY),
        (False, True, False, RequestOutputKind.FINAL_ONLY),
        (True, False, False, RequestOutputKind.DELTA),
        (True, True, False, RequestOutputKind.CUMULATIVE),
        (True, False, True, RequestOutputKind.FINAL_ONLY),
    ],
)
def test_output_kinds(stream, words, full, kind):
    assert jobs.output_kind_for(stream=stream, word_timestamps=words, full_payload=full) is kind
    job = speech.speech_job(service(TTS, async_chunk=not full), "hello", stream=stream, word_timestamps=words)
    assert kinds(job) == {kind}


def chat_body(**fields):
    return ChatCompletionRequest(model="chat", messages=[{"role": "user", "content": "Hi"}], **fields)


def test_chat_overrides_reach_one_request_and_one_stage():
    served = service(CHAT)
    before = [params.clone() for params in served.defaults]
    job = chat.chat_job(
        served, chat_body(max_tokens=5, temperature=0.5, sampling_params_list=[{}, {"max_tokens": 9}])
    )
    assert [params.max_tokens for params in job.params] == [5, 9, None]
    assert [params.temperature for params in job.params] == [0.5, 1.0, 1.0]
    assert kinds(job) == {RequestOutputKind.FINAL_ONLY}
    assert served.defaults == before
    assert kinds(chat.chat_job(served, chat_body(stream=True))) == {RequestOutputKind.DELTA}


def test_modalities_default_to_everything_but_word_times():
    model = ServedModel("chat", ("text", "audio", "timestamps"), is_chat=True, has_aligner=True)
    assert chat.chat_job(service(model), chat_body()).modalities == ["text", "audio"]


def test_ids_are_unique_and_a_clients_id_is_only_a_part():
    first, second = jobs.new_request_id("x", "mine"), jobs.new_request_id("x", "mine")
    assert first != second
    assert first.startswith("x-mine-")
    for odd in ("", "a/b", "a\0b", "ü", "x" * 65, "-a", " a", "a b", "%41", ".."):
        with pytest.raises(ApiError) as refused:
            jobs.new_request_id("x", odd)
        assert refused.value.param == "request_id"


REFUSED_SPEECH = [
    (CHAT, {"model": "chat"}, "chat/completions"),
    (TTS, {"model": "other"}, "does not exist"),
    (TTS, {"word_timestamps": True, "stream": True}, "/v1/audio/speech/stream"),
    (TTS, {"word_timestamps": True, "stream_format": "audio"}, "/v1/audio/speech/stream"),
    (PLAIN_TTS, {"word_timestamps": True}, "--forced-aligner"),
    (TTS, {"response_format": "mp3"}, "response_format"),
    (TTS, {"response_format": "opus", "stream": True}, "response_format"),
    (TTS, {"speed": 2.0}, "speed"),
    (TTS, {"input": " \n"}, "empty"),
]


@pytest.mark.parametrize(("model", "fields", "message"), REFUSED_SPEECH)
def test_speech_refusals(model, fields, message):
    body = SpeechRequest(**({"model": "tts", "input": "Hello"} | fields))
    with pytest.raises(ApiError, match=message):
        refusals.check_speech_request(model, body)


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        (TTS, {"word_timestamps": True}),
        (TTS, {"word_timestamps": True, "stream_audio": True}),
        (TTS, {"word_timestamps": True, "response_format": "pcm"}),
        (PLAIN_TTS, {"word_timestamps": True, "stream_audio": True, "response_format": "pcm"}),
        (CHAT, {}),
        (TTS, {"model": "other"}),
    ],
)
def test_session_refusals(model, fields):
    with pytest.raises(ApiError):
        refusals.check_session_config(model, SpeechSessionConfig(**fields))


def test_a_good_session_and_request_pass():
    refusals.check_session_config(
        TTS, SpeechSessionConfig(word_timestamps=True, stream_audio=True, response_format="pcm")
    )
    refusals.check_speech_request(TTS, SpeechRequest(model="tts", input="Hello", word_timestamps=True))


def test_a_prompt_that_is_too_long_is_refused_with_its_length():
    with pytest.raises(ApiError, match="101 tokens") as refused:
        speech.speech_job(service(TTS), "x" * 101, stream=False, word_timestamps=False)
    assert error_body(refused.value)["error"]["code"] == "context_length_exceeded"


def test_word_times_that_do_not_fit_a_header_say_so():
    words = [{"word": "ab", "start_ms": n, "end_ms": n + 1} for n in range(200)]
    assert list(speech.timestamp_headers(words[:2])) == ["X-Word-Timestamps"]
    headers = speech.timestamp_headers(words)
    assert list(headers) == ["X-Word-Timestamps-Omitted"]
    assert headers["X-Word-Timestamps-Omitted"].startswith("oversize; bytes=")
    assert speech.timestamp_headers(None) == {}
    assert speech.timestamp_headers([{"word": "é"}])["X-Word-Timestamps"].isascii()


def test_a_server_is_announced_when_it_accepts_connections_and_not_before():
    closed, answers = [], []
    pipeline = SimpleNamespace(
        close=lambda: closed.append(True), orchestrator=SimpleNamespace(call_soon=lambda command: None)
    )

    def announce(port):
        try:
            socket.create_connection(("127.0.0.1", port), 30).close()
            answers.append("accepted")
        except OSError as error:
            answers.append(str(error))
        signal.raise_signal(signal.SIGTERM)

    start = lambda: SimpleNamespace(pipeline=pipeline)  # noqa: E731
    assert run_server(start, "127.0.0.1", 0, log_level="error", announce=announce) == 0
    assert (answers, bool(closed)) == (["accepted"], True)
