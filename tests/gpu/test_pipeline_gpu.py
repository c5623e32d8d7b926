"""The three-process pipeline on CUDA: Thinker on GPU 0, Talker and Code2Wav on GPU 1 where there is one.

Tokens and codes are whole-number arithmetic, so they are equal to the CPU's bit for bit. Audio is floating
point: the convolutions sum in another order on another device or in a window of another length. Stated
per dtype, absolute, for samples in [-1, 1]:

    float64  1e-12      float32  1e-5      bfloat16  0.03
"""

from __future__ import annotations

import os
import threading
import uuid

import numpy as np
import pytest
import torch

from omni_verify.pipeline.code2wav.decode import chunked_decode_streaming
from omni_verify.pipeline.code2wav.rows import CodecRow
from omni_verify.pipeline.models import Code2WavDecoder, Talker, tokenizer
from omni_verify.pipeline.orchestration.messages import ErrorMessage
from omni_verify.pipeline.orchestration.pipeline import Pipeline
from omni_verify.pipeline.serving.launch import LaunchOptions, load_configs, stage_devices
from omni_verify.pipeline.stages.messages import FinishReason

GPUS = torch.cuda.device_count() if torch.cuda.is_available() else 0
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(GPUS == 0, reason="torch sees no CUDA device on this machine"),
]

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 0.03}
SECOND_GPU = f"cuda:{max(0, min(1, GPUS - 1))}"
FRAMES, SAMPLES = 79, 79 * 1920 - 555
BOUND_S = 120


class Bench:
    """One pipeline; every id carries a tag, by which residue is found."""

    def __init__(self, mode, device, **launch):
        configs = load_configs(LaunchOptions(mode="process", **launch))
        self.devices = stage_devices(configs, device)
        self.pipeline = Pipeline(configs, mode=mode, devices=self.devices)
        self.tag = f"ov{uuid.uuid4().hex[:10]}"

    def start(self, name, text="Hello", *, frames=None, seed=7, max_frames=None):
        """Submit one request and return the stream of its messages."""
        params = self.pipeline.params()
        for each in params:
            each.seed, each.temperature = seed, 0.9
            if frames is not None:
                each.extra_args["frames"] = frames
        params[-1].max_frames = max_frames
        prompt = {"prompt_token_ids": tokenizer.chat_prompt([{"role": "user", "content": text}])}
        return self.pipeline.generate(f"{self.tag}-{name}", prompt, params, timeout_s=BOUND_S)

    def run(self, name, **options):
        """Run one request to its end; returns text, samples and the last message."""
        messages = list(self.start(name, **options))
        text = "".join(m.output.outputs[0].text for m in messages if m.output_type == "text")
        pieces = [samples_of(m) for m in messages if m.output_type == "audio"]
        return text, np.concatenate(pieces), messages[-1]

    def residue(self):
        """Everything of this bench that is left in shared memory once nothing is live any more."""
        assert self.pipeline.wait_quiescent(BOUND_S), "requests or releases are still open"
        return [name for name in os.listdir("/dev/shm") if self.tag in name]

    def close(self):
        self.pipeline.close()
        assert [name for name in os.listdir("/dev/shm") if self.tag in name] == []


def samples_of(message):
    audio = message.output.outputs[0].multimodal_output.get("audio")
    return np.zeros(0, dtype=np.float32) if audio is None else audio.numpy()


def assert_close(got, wanted):
    assert got.shape == wanted.shape
    worst = float(np.abs(got - wanted).max())
    assert worst <= TOLERANCE[torch.float32], f"differs by {worst:g}"


@pytest.fixture(scope="module")
def bench():
    bench = Bench("process", "cuda")
    yield bench
    bench.close()


@pytest.fixture(scope="module")
def on_cpu():
    """The same request on the CPU, in one thread."""
    bench = Bench("inline", "cpu")
    yield bench.run("cpu", frames=FRAMES)
    bench.close()


def test_stages_are_placed_as_deployed(bench):
    assert bench.devices == {0: "cuda:0", 1: SECOND_GPU, 2: SECOND_GPU}


def test_audio_for_a_seed_is_that_of_the_cpu(bench, on_cpu):
    text, audio, last = bench.run("seed", frames=FRAMES)
    assert text == on_cpu[0]
    assert audio.size == SAMPLES
    assert_close(audio, on_cpu[1])
    assert last.finished
    assert bench.run("other", frames=FRAMES, seed=8)[0] != text, "the seed has no effect"
    assert bench.residue() == []


def test_streaming_equals_single_shot(bench):
    streamed = bench.run("streamed", frames=FRAMES)
    whole = Bench("process", "cuda", async_chunk=False)
    try:
        single = whole.run("single", frames=FRAMES)
        assert whole.residue() == []
    finally:
        whole.close()
    assert single[0] == streamed[0]
    assert_close(streamed[1], single[1])


def test_requests_of_one_batch_do_not_mix(bench, on_cpu):
    lengths = (FRAMES, 20, 4, 33)
    found = {}

    def run(frames):
        found[frames] = bench.run(f"batch{frames}", frames=frames)[1]

    threads = [threading.Thread(target=run, args=(frames,)) for frames in lengths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(BOUND_S)
    for frames in lengths:
        assert found[frames].size == frames * 1920 - 555
        assert_close(found[frames], on_cpu[1][: frames * 1920 - 555])
    assert bench.residue() == []


def test_a_client_that_disconnects_leaves_nothing(bench):
    for message in bench.start("left", frames=3000):
        if message.output_type == "audio":
            break
    assert bench.residue() == []
    assert bench.pipeline.is_healthy()
    assert bench.run("left", frames=8)[1].size == 8 * 1920 - 555, "the id is usable again"
    assert bench.residue() == []


def test_an_abort_in_the_prefill_leaves_nothing(bench):
    heard = []
    prompt = {"prompt_token_ids": tokenizer.chat_prompt([{"role": "user", "content": "y" * 30_000}])}
    request_id = f"{bench.tag}-prefill"
    bench.pipeline.submit(request_id, prompt, bench.pipeline.params(), heard.append)
    bench.pipeline.abort(request_id)
    assert bench.residue() == []
    assert not [message for message in heard if isinstance(message, ErrorMessage)]
    assert bench.run("after", frames=8)[1].size == 8 * 1920 - 555
    assert bench.residue() == []


def test_a_decoder_that_stops_early_leaves_nothing(bench):
    _, audio, last = bench.run("early", frames=1500, max_frames=10)
    assert audio.size == 10 * 1920
    assert last.output.outputs[0].finish_reason in (FinishReason.LENGTH, FinishReason.STOP)
    assert bench.residue() == []
    assert bench.pipeline.is_healthy()


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
def test_decoding_in_windows_is_decoding_at_once(dtype):
    talker, decoder = Talker(), Code2WavDecoder()
    frames = torch.stack([talker.frame(number, 5, torch.ones(16)) for number in range(FRAMES)])
    codes = frames.T.contiguous()
    wanted = decoder.double()(codes.unsqueeze(0))[0, 0]
    decoder.to(SECOND_GPU, dtype)
    windows = [(0, 4, 0), (0, 29, 4), (4, 54, 25), (29, 79, 25)]
    pieces = [
        chunked_decode_streaming(decoder, [CodecRow(codes[:, first:last], context)])[0]
        for first, last, context in windows
    ]
    streamed = torch.cat(pieces).cpu().double()
    single = decoder(codes.unsqueeze(0).to(SECOND_GPU))[0, 0].cpu().double()
    assert streamed.numel() == single.numel() == SAMPLES
    worst = {
        "stream and single shot": (streamed - single).abs().max().item(),
        "GPU and CPU in float64": (single - wanted).abs().max().item(),
    }
    assert max(worst.values()) <= TOLERANCE[dtype], worst
