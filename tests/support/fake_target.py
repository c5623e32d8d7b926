"""A target and a job that misbehave on request; they run in the zygote of a test."""

import ctypes
import os
import signal
import time
from pathlib import Path

import msgspec

from omni_verify.errors import TargetUnusableError, UsageError
from omni_verify.harness.result import CaseResult
from omni_verify.targets.protocol import Capabilities, TargetInfo
from omni_verify.trace.event import Event
from omni_verify.verdict import Evidence, Finding, judge


class FakeTarget:
    def __init__(self, spec, loader):
        self.spec, self.loader = spec, loader
        self.loaded_in = 0

    def prepare(self):
        if self.spec == "fake==9":
            raise TargetUnusableError("there is no release 9.")

    def load(self):
        if self.spec == "fake@hang":
            time.sleep(600)
        if self.spec == "fake@exit":
            os._exit(9)
        if self.spec == "fake@raise":
            raise ImportError("no module named 'nothing'")
        self.loaded_in = os.getpid()

    @property
    def info(self):
        return TargetInfo(name="fake", version=self.spec.partition("==")[2] or "1.0", loader=self.loader)

    @property
    def capabilities(self):
        return Capabilities(forkable=self.spec != "fake@unforkable")


def resolve(spec, *, loader="auto"):
    if not spec.startswith("fake"):
        raise UsageError(f"unknown target {spec!r}. Did you mean 'fake'?")
    return FakeTarget(spec, loader)


def shm_file(prefix):
    return Path("/dev/shm") / f"{prefix}R_0_0"


def run(target, params, context):
    """Play one case by the name of the scenario."""
    name = params["scenario"].partition("/")[2]
    findings, cut, trace = (
        [],
        "",
        [Event(0, "client", "abort.enter", "R"), Event(1, "talker", "put.enter", "R_0_0")],
    )
    if name == "crash":
        ctypes.string_at(0)
    elif name == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif name == "garbage":
        return b"no result"
    elif name == "exits":
        os._exit(0)
    elif name == "raises":
        raise RuntimeError("a defect of the runner")
    elif name == "hang":
        shm_file(context.prefix).write_bytes(b"left")
        if mark := os.environ.get("OV_TEST_MARK"):
            made = Path(mark, "hanging.new")
            made.write_text(shm_file(context.prefix).name)
            made.rename(Path(mark, "hanging"))
        if os.fork() == 0:
            time.sleep(600)
        time.sleep(600)
    elif name == "leaves":
        shm_file(context.prefix).write_bytes(b"left")
    elif name == "violated":
        findings = [
            Finding(invariant="I51", message="1 segment is left", expected="none", found="R_0_0", key="R")
        ]
    elif name == "cut":
        cut = "a wait ran out"
    processes = f"loaded={target.loaded_in} pid={os.getpid()}"
    evidence = Evidence(
        actors=("client",),
        finished=("client",),
        orders=("abort.enter(R) < put.enter(R_0_0)",),
        checked=1,
        cut=cut,
    )
    verdict, reason = judge(findings, evidence)
    return msgspec.msgpack.encode(
        CaseResult(
            id=params["scenario"],
            verdict=verdict,
            reason=reason,
            findings=findings,
            evidence=evidence,
            trace=trace,
            log=[f"prefix={context.prefix} isolation={context.isolation} {processes}"],
        )
    )
