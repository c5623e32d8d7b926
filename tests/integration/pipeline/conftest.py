"""Pipelines in every execution mode, servers on free ports, and the search for residue."""

from __future__ import annotations

import contextlib
import os
import threading
import uuid
from collections.abc import Mapping

import numpy as np
import pytest
import torch

from omni_verify.contracts.keys import wake_directory
from omni_verify.pipeline.models import tokenizer
from omni_verify.pipeline.orchestration.pipeline import Pipeline
from omni_verify.pipeline.serving.launch import LaunchOptions, load_configs
from omni_verify.pipeline.serving.server import build_server
from omni_verify.pipeline.serving.service import Service

torch.set_num_threads(1)
START_BOUND_S = 120


class Bench:
    """One pipeline with the helpers that every scenario needs."""

    def __init__(self, pipeline):
        self.pipeline = pipeline
        self.tag = f"ov{uuid.uuid4().hex[:10]}"

    def id(self, name):
        return f"{self.tag}-{name}"

    def params(self, *, frames=None, kind=None, **last):
        params = self.pipeline.params() if kind is None else self.pipeline.params(kind)
        if frames is not None:
            for each in params:
                each.extra_args["frames"] = frames
        for name, value in last.items():
            setattr(params[-1], name, value)
        return params

    def prompt(self, text="Hello"):
        if self.pipeline.configs[0].model_stage == "talker":
            return {"prompt_token_ids": tokenizer.encode(text), "additional_information": {"text": [text]}}
        return {"prompt_token_ids": tokenizer.chat_prompt([{"role": "user", "content": text}])}

    def run(self, name, **options):
        """Run one request to its end; returns text, audio, and every message."""
        messages = list(
            self.pipeline.generate(self.id(name), options.pop("prompt", None) or self.prompt(), **options)
        )
        text = "".join(m.output.outputs[0].text for m in messages if m.output_type == "text")
        pieces = [audio_of(m) for m in messages if m.output_type == "audio"]
        return text, np.concatenate(pieces) if pieces else None, messages

    def residue(self):
        """Everything of this bench's requests that is left, once nothing is live any more."""
        assert self.pipeline.wait_quiescent(60), "requests or releases are still open"
        found = [name for name in os.listdir("/dev/shm") if self.tag in name]
        for handle in self.pipeline.handles:
            core = getattr(handle, "core", None)
            if core is not None:
                found += held_ids(core.adapter, self.tag) + held_ids(core.scheduler, self.tag)
                found += held_ids(getattr(core.adapter, "connector", None), self.tag)
                found += held_ids(core.runner, self.tag) + held_ids(
                    getattr(core.runner, "engine", None), self.tag
                )
        return found


def audio_of(message):
    audio = message.output.outputs[0].multimodal_output.get("audio")
    return np.zeros(0, dtype=np.float32) if audio is None else audio.numpy()


def held_ids(owner, tag):
    """List the containers of an object that still mention a request."""
    if owner is None:
        return []
    found = []
    for name, value in vars(owner).items():
        if isinstance(value, Mapping | set | list | tuple) or type(value).__name__ == "deque":
            found += [f"{type(owner).__name__}.{name}: {item!r}" for item in list(value) if tag in repr(item)]
    return found


@contextlib.contextmanager
def running(mode, model="qwen3_omni_moe", aligner=None, async_chunk=None, configs=None, **options):
    configs = configs or load_configs(
        LaunchOptions(model=model, mode="thread", forced_aligner=aligner, async_chunk=async_chunk)
    )
    pipeline = Pipeline(configs, mode=mode, **options)
    bench = Bench(pipeline)
    try:
        yield bench
    finally:
        pipeline.close()
    scope = wake_directory(os.getuid(), 0, pipeline.wakeup_scope)
    assert not os.path.exists(scope), os.listdir(scope)
    assert [name for name in os.listdir("/dev/shm") if bench.tag in name] == []


class Server:
    """A real uvicorn server in a thread of this process."""

    def __init__(self, service):
        self.service = service
        self.server = build_server(service, "127.0.0.1", 0, log_level="warning")
        self.listener = self.server.config.bind_socket()
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.thread = threading.Thread(
            target=self.server.run, kwargs={"sockets": [self.listener]}, daemon=True
        )
        started = threading.Event()
        inner = self.server.startup

        async def startup(sockets=None):
            await inner(sockets=sockets)
            started.set()

        self.server.startup = startup
        self.thread.start()
        assert started.wait(START_BOUND_S)

    def close(self):
        self.server.should_exit = True
        self.thread.join(60)
        assert not self.thread.is_alive()


@pytest.fixture(scope="session")
def open_pipeline():
    """A context manager that starts a pipeline and, at its end, proves that nothing is left."""
    return running


@contextlib.contextmanager
def serving(mode, model, **options):
    with running(mode, model, **options) as bench:
        server = Server(Service(bench.pipeline, model))
        bench.server, bench.url, bench.service = server, server.url, server.service
        try:
            yield bench
        finally:
            server.close()


@pytest.fixture(scope="module")
def chat():
    """The chat pipeline, stages in threads, behind its API."""
    with serving("thread", "qwen3_omni_moe") as bench:
        yield bench


@pytest.fixture(scope="module")
def tts():
    """The speech pipeline with a forced aligner, stages in threads, behind its API."""
    with serving("thread", "qwen3_tts", aligner="reference") as bench:
        yield bench


@pytest.fixture(scope="module")
def process_chat():
    """The chat pipeline in three spawned processes, behind its API."""
    with serving("process", "qwen3_omni_moe") as bench:
        yield bench
