"""Run one scenario on a tiny target, or verbs on the reference, in this process, under an own prefix."""

import os
import secrets
import sys
from pathlib import Path

import pytest

from omni_verify.engine.gates import ThreadRuntime
from omni_verify.engine.order import PartialOrder
from omni_verify.harness.case import run_case
from omni_verify.harness.scenario import Scenario
from omni_verify.harness.script import Script
from omni_verify.settings import Settings
from omni_verify.targets import resolve

SUPPORT = str(Path(__file__).parents[2] / "support")


@pytest.fixture
def tiny(monkeypatch):
    """A fresh tiny target."""
    monkeypatch.syspath_prepend(SUPPORT)
    from tiny_target import TinyTarget

    yield TinyTarget()
    sys.modules.pop("tiny_target", None)


@pytest.fixture
def prefix():
    """A prefix that nobody else uses; nothing may be left under it."""
    made = f"ovt{secrets.token_hex(4)}-"
    yield made
    assert not [n for n in os.listdir("/dev/shm") if made in n]


@pytest.fixture
def play(tiny, prefix):
    """A function from a program to its `CaseResult`; bounds are short, so that a hang is a result."""

    def run(program, *, invariants=("I29",), gate_s=0.3, wait_s=0.3, **fields):
        case = Scenario(
            id="test/case", program=program, story="A test.", invariants=invariants, source="test", **fields
        )
        bounds = Settings(gate_s=gate_s, wait_s=wait_s)
        return run_case(tiny, case, settings=bounds, prefix=prefix, isolation="prefix")

    return run


@pytest.fixture
def script(prefix):
    """A `Script` on the reference and real threads; nothing of it may be left after its close."""
    target = resolve("reference")
    target.load()
    order = PartialOrder()
    runtime = ThreadRuntime(order, gate_s=30, wait_s=30, prefix=prefix)
    made = Script(target, runtime, order, prefix, settings=Settings(gate_s=30, wait_s=30))
    yield made
    made.shutdown()
    made.patcher.undo()
    assert made.seen.closed == []
