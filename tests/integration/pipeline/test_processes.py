"""Three spawned processes: a stage that is killed, a server that is signalled, a parent that is killed."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import httpx
import pytest

from omni_verify.pipeline.orchestration.pipeline import RequestFailedError
from omni_verify.pipeline.serving.launch import LaunchOptions, load_configs

pytestmark = pytest.mark.slow
BOUND_S = 120


@pytest.fixture(scope="module")
def bench(open_pipeline):
    with open_pipeline("process") as bench:
        yield bench


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_a_killed_stage_fails_its_requests_at_once_and_is_replaced(bench, stage):
    handle = bench.pipeline.handles[stage]
    killed = handle.pid
    stream = bench.pipeline.generate(
        bench.id(f"victim{stage}"), bench.prompt("x" * 300), bench.params(frames=4000)
    )
    next(message for message in stream if message.output_type == ("text" if stage == 0 else "audio"))
    if stage == 0:
        # Its part of the old request is over by then or not: a second one is certainly in its hands.
        stream.close()
        stream = bench.pipeline.generate(bench.id("victim0b"), bench.prompt("y" * 30_000), bench.params())
        started = bench.pipeline.statistics()["requests"]
        failure = []

        def consume():
            try:
                list(stream)
            except RequestFailedError as error:
                failure.append(error)

        thread = threading.Thread(target=consume)
        thread.start()
        while bench.pipeline.statistics()["requests"] == started:
            os.sched_yield()
        os.kill(killed, signal.SIGKILL)
        thread.join(BOUND_S)
        assert f"stage {stage} died: killed by signal 9" in str(failure[0])
    else:
        os.kill(killed, signal.SIGKILL)
        with pytest.raises(RequestFailedError, match=f"stage {stage} died: killed by signal 9"):
            list(stream)
    assert bench.pipeline.is_healthy()
    _, audio, _ = bench.run(f"after{stage}", params=bench.params(frames=8))
    assert audio.size == 8 * 1920 - 555
    assert handle.pid != killed
    assert bench.residue() == []


def test_requests_that_the_dead_stage_does_not_serve_go_on(bench):
    stream = bench.pipeline.generate(bench.id("text"), bench.prompt(), bench.params(), modalities=["text"])
    first = next(stream)
    os.kill(bench.pipeline.handles[2].pid, signal.SIGKILL)
    rest = list(stream)
    assert (rest or [first])[-1].finished
    assert bench.residue() == []


def test_variables_of_a_deploy_entry_are_there_when_its_process_starts_and_nowhere_else(open_pipeline):
    configs = list(load_configs(LaunchOptions(model="qwen3_omni_moe", mode="thread")))
    configs[1] = dataclasses.replace(configs[1], env={"OV_TEST_STAGE": "talker"})
    with open_pipeline("process", configs=configs) as bench:
        found = []
        for handle in bench.pipeline.handles:
            assert handle.wait_ready(BOUND_S)
            found.append(b"OV_TEST_STAGE=talker" in Path(f"/proc/{handle.pid}/environ").read_bytes())
        assert found == [False, True, False]
        assert "OV_TEST_STAGE" not in os.environ
        talker = bench.pipeline.handles[1]
        killed, deadline = talker.pid, time.monotonic() + BOUND_S
        os.kill(killed, signal.SIGKILL)
        while talker.pid == killed and time.monotonic() < deadline:
            os.sched_yield()
        assert talker.pid != killed
        assert talker.wait_ready(BOUND_S)
        assert b"OV_TEST_STAGE=talker" in Path(f"/proc/{talker.pid}/environ").read_bytes()


# -- the command -------------------------------------------------------------------------------

COMMAND = "import typer; from omni_verify.cli.serve import serve\nif __name__ == '__main__': typer.run(serve)"


class Command:
    """``omni-verify serve`` as a user starts it, in a session of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        script = folder / "serve.py"
        script.write_text(COMMAND)
        root = str(Path(__file__).parents[3])
        self.log = (folder / "log").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, str(script), "--port", "0", *options],
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": root},
        )
        line = self.process.stdout.readline()
        found = re.search(r"http://[\d.]+:\d+", line)
        assert found, f"{line!r}\n{self.read_log()}"
        self.url = found[0]

    def read_log(self):
        self.log.flush()
        return Path(self.log.name).read_text()

    def children(self):
        return [
            int(pid)
            for pid in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        ]

    def finish(self):
        code = self.process.wait(BOUND_S)
        self.process.stdout.close()
        self.log.close()
        return code


def leftovers(tag):
    return [name for name in os.listdir("/dev/shm") if tag in name]


@pytest.fixture
def command(tmp_path):
    started = []

    def start(*options):
        started.append(Command(tmp_path, *options))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
            each.finish()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_middle_of_a_stream_ends_everything_cleanly(command, number):
    server, tag = command(), f"ov{uuid.uuid4().hex[:10]}"
    children = server.children()
    body = {
        "model": "qwen3_omni_moe",
        "stream": True,
        "request_id": tag,
        "messages": [{"role": "user", "content": "Hello"}],
        "sampling_params_list": [{}, {"extra_args": {"frames": 4000}}],
    }
    with httpx.stream("POST", f"{server.url}/v1/chat/completions", json=body, timeout=BOUND_S) as answer:
        lines = answer.iter_lines()
        next(line for line in lines if '"audio"' in line)
        os.killpg(server.process.pid, number)
        rest = list(lines)
    assert any("shutting down" in line for line in rest)
    assert rest[-2:] == ["data: [DONE]", ""]
    assert server.finish() == 0
    assert leftovers(tag) == []
    for pid in children:
        wait_ended(pid)


def test_stages_end_and_clean_up_when_the_server_is_killed(command):
    server, tag = command(), f"ov{uuid.uuid4().hex[:10]}"
    children = server.children()
    body = {
        "model": "qwen3_omni_moe",
        "stream": True,
        "request_id": tag,
        "messages": [{"role": "user", "content": "Hello"}],
        "sampling_params_list": [{}, {"extra_args": {"frames": 4000}}],
    }
    with (
        contextlib.suppress(httpx.HTTPError),
        httpx.stream("POST", f"{server.url}/v1/chat/completions", json=body, timeout=BOUND_S) as answer,
    ):
        for line in answer.iter_lines():
            if '"audio"' in line and server.process.poll() is None:
                server.process.kill()
    server.finish()
    for pid in children:
        wait_ended(pid)
    assert leftovers(tag) == []


def wait_ended(pid):
    """Wait for a process that is nobody's child any more."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([fd], [], [], BOUND_S)[0], f"process {pid} did not end"
    finally:
        os.close(fd)


def test_configuration_errors_come_before_any_process(tmp_path):
    from omni_verify.errors import OmniVerifyError
    from omni_verify.pipeline.serving.launch import LaunchOptions, load_configs

    bad = tmp_path / "bad.yaml"
    bad.write_text("async_chunk: 'false'\nstages: []\n")
    for options in (
        LaunchOptions(model="nope"),
        LaunchOptions(mode="inline"),
        LaunchOptions(deploy_config=bad),
        LaunchOptions(deploy_config=tmp_path / "missing.yaml"),
    ):
        with pytest.raises(OmniVerifyError):
            load_configs(options)
