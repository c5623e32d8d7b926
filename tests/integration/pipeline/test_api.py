"""The API with its real clients: shapes, refusals, streams, and clients that leave."""

from __future__ import annotations

import asyncio
import base64
import io
import itertools
import json
import os
import subprocess
import wave
from pathlib import Path

import httpx
import numpy as np
import openai
import pytest
import websockets

from omni_verify.pipeline.serving.audio import to_pcm16

ASK = [{"role": "user", "content": "Explain scalable audio in 15 words."}]
LONG = [{}, {"extra_args": {"frames": 4000}}, {}]


def client(bench):
    return openai.OpenAI(base_url=f"{bench.url}/v1", api_key="none", timeout=120, max_retries=0)


def wav_samples(data):
    with wave.open(io.BytesIO(data)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 24000)
        return np.frombuffer(file.readframes(file.getnframes()), dtype="<i2")


def ask(bench, **extra):
    with client(bench) as api:
        return api.chat.completions.create(
            model="qwen3_omni_moe",
            messages=ASK,
            modalities=["text", "audio"],
            extra_body={"request_id": bench.tag} | extra,
        )


def ask_streaming(bench, **options):
    text, audio, finishes, usage = "", b"", [], None
    with client(bench) as api:
        for chunk in api.chat.completions.create(
            model="qwen3_omni_moe",
            messages=ASK,
            modalities=["text", "audio"],
            stream=True,
            stream_options={"include_usage": True},
            extra_body={"request_id": bench.tag} | options,
        ):
            usage = chunk.usage or usage
            for choice in chunk.choices:
                assert choice.index == 0
                text += choice.delta.content or ""
                audio += base64.b64decode((choice.delta.model_dump().get("audio") or {}).get("data") or "")
                finishes += [choice.finish_reason] if choice.finish_reason else []
    return text, audio, finishes, usage


def test_openai_client_gets_the_same_text_and_audio_streaming_or_not(chat):
    whole = ask(chat)
    message = whole.choices[0].message
    samples = wav_samples(base64.b64decode(message.audio.data))
    text, streamed, finishes, usage = ask_streaming(chat)
    assert text == message.content == message.audio.transcript
    assert streamed == samples.tobytes()
    assert finishes == [whole.choices[0].finish_reason] == ["stop"]
    assert usage.completion_tokens == whole.usage.completion_tokens > 0
    assert (len(samples) + 555) % 1920 == 0
    assert chat.residue() == []


def test_openai_client_on_three_processes(process_chat, chat):
    """Three spawned processes; the same audio as the threads'."""
    message = ask(process_chat).choices[0].message
    assert message.audio.data == ask(chat).choices[0].message.audio.data
    text, streamed, finishes, _ = ask_streaming(process_chat)
    assert (text, finishes) == (message.content, ["stop"])
    assert streamed == wav_samples(base64.b64decode(message.audio.data)).tobytes()
    assert process_chat.residue() == []


def test_internal_chunks_do_not_make_a_stream(chat):
    body = {"model": "qwen3_omni_moe", "messages": ASK, "modalities": ["text"], "request_id": chat.tag}
    answer = httpx.post(f"{chat.url}/v1/chat/completions", json=body, timeout=60)
    assert answer.headers["content-type"] == "application/json"
    assert "audio" not in answer.json()["choices"][0]["message"]
    assert chat.residue() == []


def test_sampling_parameters_reach_their_stage_and_no_other_request(chat):
    shared = [params.clone() for params in chat.service.defaults]
    short = ask(chat, sampling_params_list=[{}, {"extra_args": {"frames": 10}}, {}])
    assert len(wav_samples(base64.b64decode(short.choices[0].message.audio.data))) == 10 * 1920 - 555
    assert list(chat.service.defaults) == shared


BAD_CHAT = {
    "unknown model": ({"model": "nope"}, 404, "model"),
    "wrong type": ({"stream": "yes"}, 400, "stream"),
    "number as text": ({"max_tokens": "5"}, 400, "max_tokens"),
    "missing messages": ({"messages": None}, 400, "messages"),
    "no messages": ({"messages": []}, 400, "messages"),
    "image": ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "messages"),
    "unknown modality": ({"modalities": ["video"]}, 400, "modalities"),
    "no modality": ({"modalities": []}, 400, "modalities"),
    "several choices": ({"n": 2}, 400, "n"),
    "slash in the id": ({"request_id": "a/../b"}, 400, "request_id"),
    "zero byte in the id": ({"request_id": "a\0b"}, 400, "request_id"),
    "long id": ({"request_id": "x" * 300}, 400, "request_id"),
    "empty id": ({"request_id": ""}, 400, "request_id"),
    "too many stages": ({"sampling_params_list": [{}] * 4}, 400, "sampling_params_list"),
    "unknown parameter": ({"sampling_params_list": [{"warmth": 1}]}, 400, "sampling_params_list"),
    "long prompt": ({"messages": [{"role": "user", "content": "x" * 40_000}]}, 400, "messages"),
}


@pytest.mark.parametrize("change", BAD_CHAT.values(), ids=BAD_CHAT.keys())
def test_bad_chat_requests_get_the_api_error_and_cost_no_engine_work(chat, change):
    fields, status, param = change
    calls, live = chat.service.engine.calls, chat.pipeline.statistics()["requests"]
    body = {"model": "qwen3_omni_moe", "messages": ASK} | fields
    answer = httpx.post(f"{chat.url}/v1/chat/completions", json=body, timeout=60)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["param"].startswith(param)
    assert (chat.service.engine.calls, chat.pipeline.statistics()["requests"]) == (calls, live)


def test_other_bad_requests_have_the_same_shape(chat):
    answers = [
        httpx.post(f"{chat.url}/v1/chat/completions", content=b"{not json", timeout=60),
        httpx.get(f"{chat.url}/v1/nothing", timeout=60),
        httpx.get(f"{chat.url}/v1/chat/completions", timeout=60),
        httpx.post(f"{chat.url}/v1/chat/completions", content=b"x" * (5 << 20), timeout=60),
        httpx.post(
            f"{chat.url}/v1/audio/speech", json={"model": "qwen3_omni_moe", "input": "Hello"}, timeout=60
        ),
    ]
    assert [answer.status_code for answer in answers] == [400, 404, 405, 413, 400]
    assert all(set(answer.json()["error"]) == {"message", "type", "param", "code"} for answer in answers)
    with client(chat) as api, pytest.raises(openai.NotFoundError):
        api.chat.completions.create(model="nope", messages=ASK)
    assert chat.residue() == []


def test_health_models_and_metrics(chat):
    health = httpx.get(f"{chat.url}/health", timeout=60)
    assert (health.status_code, health.json()["status"]) == (200, "ok")
    with client(chat) as api:
        assert [model.id for model in api.models.list()] == ["qwen3_omni_moe"]
    ask(chat)
    text = httpx.get(f"{chat.url}/metrics", timeout=60).text
    assert 'omni_requests_total{endpoint="chat",result="ok"}' in text
    assert 'omni_pipeline{name="stage2_requests"}' in text
    assert "omni_time_to_first_audio_seconds_count" in text


def leave_after_first_audio(bench, **extra):
    body = {"model": "qwen3_omni_moe", "messages": ASK, "stream": True, "request_id": bench.tag} | extra
    with httpx.stream("POST", f"{bench.url}/v1/chat/completions", json=body, timeout=120) as answer:
        for line in answer.iter_lines():
            if '"audio"' in line:
                return


@pytest.mark.parametrize("where", ["chat", "process_chat"])
def test_client_that_leaves_after_the_first_audio_aborts_every_stage(where, request):
    bench = request.getfixturevalue(where)
    before = bench.pipeline.statistics()["aborted"]
    leave_after_first_audio(bench, sampling_params_list=LONG)
    assert wait_aborted(bench, before + 1)
    assert bench.residue() == []
    assert ask(bench).choices[0].message.audio.data
    assert httpx.get(f"{bench.url}/health", timeout=60).status_code == 200
    assert bench.residue() == []


def wait_aborted(bench, count):
    """Wait, by asking the server itself, until it has noticed that its client left."""
    for _ in range(600):
        httpx.get(f"{bench.url}/health", timeout=60)
        if bench.pipeline.statistics()["aborted"] >= count:
            return True
    return False


def test_client_that_leaves_a_request_without_a_stream_aborts_it(chat):
    before = chat.pipeline.statistics()["aborted"]
    body = {"model": "qwen3_omni_moe", "messages": ASK, "request_id": chat.tag, "sampling_params_list": LONG}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{chat.url}/v1/chat/completions", json=body, timeout=httpx.Timeout(60, read=0.5))
    assert wait_aborted(chat, before + 1)
    assert chat.residue() == []


# -- speech ------------------------------------------------------------------------------------

TEXT = "one two three four"
SAMPLES = 4 * len(TEXT) * 1920 - 555


def say(bench, **extra):
    body = {"model": "qwen3_tts", "input": TEXT, "request_id": bench.tag} | extra
    return httpx.post(f"{bench.url}/v1/audio/speech", json=body, timeout=120)


def test_speech_complete_in_pieces_and_as_events_is_the_same_audio(tts):
    whole = wav_samples(say(tts).content)
    assert len(whole) == SAMPLES
    raw = say(tts, response_format="pcm", stream_format="audio")
    assert raw.headers["content-type"] == "audio/pcm"
    assert raw.content == whole.tobytes()
    events = [
        json.loads(line[6:])
        for line in say(tts, response_format="pcm", stream=True).text.splitlines()
        if line
    ]
    assert [event["type"] for event in events] == ["speech.audio.delta"] * (len(events) - 1) + [
        "speech.audio.done"
    ]
    assert b"".join(base64.b64decode(event.get("audio", "")) for event in events) == whole.tobytes()
    assert len(events) > 3
    assert tts.residue() == []


def test_openai_client_speaks(tts):
    with client(tts) as api:
        answer = api.audio.speech.create(
            model="qwen3_tts",
            voice="alloy",
            input=TEXT,
            response_format="wav",
            extra_body={"request_id": tts.tag},
        )
        assert len(wav_samples(answer.read())) == SAMPLES
    assert tts.residue() == []


@pytest.mark.parametrize("rate", [16000, 22050])
def test_resampled_speech_has_the_same_length_in_pieces(tts, rate):
    whole = say(tts, response_format="pcm", sample_rate=rate).content
    pieces = say(tts, response_format="pcm", sample_rate=rate, stream_format="audio").content
    assert whole == pieces
    assert abs(len(whole) // 2 - SAMPLES * rate / 24000) <= 1


def test_word_times_come_in_a_header(tts):
    answer = say(tts, word_timestamps=True)
    words = json.loads(answer.headers["x-word-timestamps"])
    assert [word["word"] for word in words] == TEXT.split()
    assert all(a["end_ms"] <= b["start_ms"] for a, b in itertools.pairwise(words))
    assert abs(words[-1]["end_ms"] - SAMPLES / 24) < 200
    long = say(tts, word_timestamps=True, input="ab " * 120)
    assert "x-word-timestamps" not in long.headers
    assert long.headers["x-word-timestamps-omitted"].endswith("limit=4096")


BAD_SPEECH = {
    "stream with timestamps": {"word_timestamps": True, "stream": True},
    "raw stream with timestamps": {"word_timestamps": True, "stream_format": "audio"},
    "mp3": {"response_format": "mp3"},
    "streamed mp3": {"response_format": "mp3", "stream": True},
    "speed": {"speed": 1.5, "stream": True},
    "empty": {"input": "  "},
    "number": {"input": 5},
    "huge": {"input": "x" * 40_000},
    "sample rate": {"sample_rate": 1},
    "chat": {"model": "gpt"},
}


@pytest.mark.parametrize("change", BAD_SPEECH.values(), ids=BAD_SPEECH.keys())
def test_bad_speech_requests_cost_no_engine_work(tts, change):
    calls = tts.service.engine.calls
    answer = say(tts, **change)
    assert answer.status_code in (400, 404)
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    if change.get("word_timestamps"):
        assert "/v1/audio/speech/stream" in error["message"]
    assert tts.service.engine.calls == calls


# -- websocket ---------------------------------------------------------------------------------


async def converse(bench, config, text=TEXT, leave_after=None):
    """Run one utterance; returns the JSON messages and the audio."""
    messages, audio = [], b""
    async with websockets.connect(bench.url.replace("http", "ws") + "/v1/audio/speech/stream") as socket:
        await socket.send(json.dumps({"type": "session.config", "model": "qwen3_tts"} | config))
        for part in (text[:5], text[5:]):
            await socket.send(json.dumps({"type": "input.text", "text": part}))
        await socket.send(json.dumps({"type": "input.done"}))
        while not messages or messages[-1]["type"] not in ("session.done", "error", leave_after):
            frame = await asyncio.wait_for(socket.recv(), 120)
            if isinstance(frame, bytes):
                audio += frame
            else:
                messages.append(json.loads(frame))
                audio += base64.b64decode(messages[-1].get("audio_b64", ""))
        if messages[-1]["type"] == "session.done":
            await socket.send(json.dumps({"type": "session.close"}))
    return messages, audio


def test_websocket_word_times_span_the_whole_sentence(tts):
    config = {"stream_audio": True, "response_format": "pcm", "word_timestamps": True}
    messages, audio = asyncio.run(converse(tts, config))
    assert audio == wav_samples(say(tts).content).tobytes()
    chunks = [message for message in messages if message["type"] == "audio.chunk"]
    assert [chunk["timestamps"] for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert len(chunks) > 3
    last = chunks[-1]
    assert (last["audio_b64"], last["chunk_start_ms"]) == ("", 0)
    assert last["chunk_end_ms"] == round(SAMPLES / 24)
    assert [word["word"] for word in last["timestamps"]] == TEXT.split()
    assert abs(last["timestamps"][-1]["end_ms"] - last["chunk_end_ms"]) < 200
    assert [message["type"] for message in messages[-2:]] == ["audio.done", "session.done"]
    assert tts.residue() == []


async def two_utterances_at_once(bench):
    messages = [{"type": "session.config", "stream_audio": True, "response_format": "pcm"}]
    for text in ("one", "two three"):
        messages += [{"type": "input.text", "text": text}, {"type": "input.done"}]
    sizes = {}
    async with websockets.connect(bench.url.replace("http", "ws") + "/v1/audio/speech/stream") as socket:
        for message in [*messages, {"type": "session.close"}]:
            await socket.send(json.dumps(message))
        async for frame in socket:
            if isinstance(frame, str) and json.loads(frame)["type"] == "audio.done":
                done = json.loads(frame)
                sizes[done["utterance_index"]] = done["total_samples"]
    return sizes


def test_websocket_client_may_send_the_next_utterance_before_the_first_is_spoken(tts):
    sizes = asyncio.run(two_utterances_at_once(tts))
    assert sizes == {0: 4 * 3 * 1920 - 555, 1: 4 * 9 * 1920 - 555}


def test_websocket_without_word_times_sends_binary_frames(tts):
    expected = wav_samples(say(tts).content).tobytes()
    messages, audio = asyncio.run(converse(tts, {"stream_audio": True, "response_format": "pcm"}))
    assert [message["type"] for message in messages] == ["audio.start", "audio.done", "session.done"]
    assert audio == expected
    _, whole = asyncio.run(converse(tts, {"response_format": "wav"}))
    assert whole[44:] == expected


@pytest.mark.parametrize(
    "config",
    [
        {"word_timestamps": True, "response_format": "pcm"},
        {"word_timestamps": True, "stream_audio": True, "response_format": "wav"},
        {"model": "gpt"},
        {"response_format": "mp3"},
        {"stream_audio": "yes"},
        {"speed": 2.0},
    ],
)
def test_websocket_refusals_cost_no_engine_work(tts, config):
    calls = tts.service.engine.calls
    messages, _ = asyncio.run(converse(tts, config))
    assert messages[0]["type"] == "error"
    assert tts.service.engine.calls == calls


def test_websocket_client_that_leaves_aborts_its_utterance(tts):
    before = tts.pipeline.statistics()["aborted"]
    config = {"stream_audio": True, "response_format": "pcm", "word_timestamps": True}
    asyncio.run(converse(tts, config, text="long " * 400, leave_after="audio.chunk"))
    assert wait_aborted(tts, before + 1)
    assert tts.residue() == []


def test_timestamps_without_an_aligner_are_refused(open_pipeline):
    from omni_verify.pipeline.serving.errors import ApiError
    from omni_verify.pipeline.serving.refusals import check_session_config, check_speech_request
    from omni_verify.pipeline.serving.schemas import SpeechRequest, SpeechSessionConfig
    from omni_verify.pipeline.serving.service import Service

    with open_pipeline("thread", "qwen3_tts") as bench:
        model = Service(bench.pipeline, "tts").model
        with pytest.raises(ApiError, match="--forced-aligner"):
            check_speech_request(model, SpeechRequest(model="tts", input="x", word_timestamps=True))
        with pytest.raises(ApiError, match="--forced-aligner"):
            check_session_config(
                model, SpeechSessionConfig(word_timestamps=True, stream_audio=True, response_format="pcm")
            )


def test_pcm_is_what_the_samples_say():
    assert to_pcm16(np.array([0.5], dtype=np.float32)) == (16384).to_bytes(2, "little")


def test_the_curl_example_prints_the_text_and_saves_the_audio(chat, tmp_path):
    script = Path(__file__).parents[3] / "examples" / "curl_chat.sh"
    env = {**os.environ, "OMNI_URL": chat.url, "OMNI_OUT": str(tmp_path / "answer.wav")}
    run = subprocess.run(["bash", str(script)], capture_output=True, text=True, env=env, timeout=120)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip()
    assert (len(wav_samples((tmp_path / "answer.wav").read_bytes())) + 555) % 1920 == 0
