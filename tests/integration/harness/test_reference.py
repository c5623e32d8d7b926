"""Whole cases on the reference, in a private /dev/shm and under a prefix: the verdict that each must get."""

import os
import secrets
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from omni_verify.audit import namespace, shm
from omni_verify.harness.result import CaseResult
from omni_verify.verdict import Verdict

pytest.importorskip("torch")
HERE = Path(__file__).parent
ROOT = HERE.parents[2]
NAMES = [
    line.split("(")[0].removeprefix("def ")
    for line in (HERE / "programs.py").read_text().splitlines()
    if line.startswith("def ")
]


def play(mode, prefix):
    """Run every program in one process that holds the reference; return the results by name."""
    done = subprocess.run(
        [sys.executable, "driver.py", mode, prefix, *NAMES],
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=280,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(HERE)]), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = done.stdout.splitlines()
    assert len(lines) == len(NAMES), done.stderr[-3000:]
    results = [msgspec.json.decode(line, type=CaseResult | None) for line in lines]
    assert None not in results, done.stderr[-3000:]
    left = [n for n in os.listdir("/dev/shm") if prefix in n]
    # Only the program that leaves something on purpose may leave it, and only outside a private directory.
    residue = [n for n in left if "violated_residue" in n]
    for name in residue:
        os.unlink(f"/dev/shm/{name}")
    shm.sweep(f"{prefix}violated_residue-")  # the journal of the connector that never closed
    assert left == residue
    assert not [name for name in NAMES if shm.scan(f"{prefix}{name}-")]
    assert bool(residue) == (mode == "prefix")
    return dict(zip(NAMES, results, strict=True))


@pytest.fixture(scope="module")
def prefix():
    return f"ovh{secrets.token_hex(4)}-"


@pytest.fixture(scope="module", params=["mount", "prefix"])
def results(request, prefix):
    if request.param == "mount" and (why := namespace.available()):
        pytest.skip(f"no private mount namespace: {why}")
    return play(request.param, prefix)


@pytest.mark.parametrize("name", NAMES)
def test_verdict(results, name):
    result = results[name]
    assert result.verdict is Verdict(name.partition("_")[0]), (result.reason, result.findings, result.log)


def test_reasons(results):
    reasons = {name: results[name].reason for name in NAMES}
    assert "needs commit.exit(R_1_0)" in reasons["inconclusive_unreachable"]
    assert reasons["inconclusive_unreached"] == "point not reached: abort.enter(R)"
    assert reasons["inconclusive_other_order"] == "order not observed: commit.exit(R_1_0) < put.enter(R_1_0)"
    assert "actors that did not end: endless" in reasons["inconclusive_endless"]
    assert reasons["inconclusive_nothing"] == "no check had anything to look at"
    assert "sender: sender waited in vain for a miracle" in reasons["inconclusive_peer_wait"]


def test_findings(results):
    found = {n: [(f.invariant, f.key, f.found) for f in results[n].findings] for n in NAMES}
    assert found["violated_raises"][0][2] == "TypeError: 'NoneType' object is not callable"
    assert found["violated_actor_raises"][0][1:] == ("client", "KeyError: 'nobody'")
    assert found["violated_peer_raises"][0][1:] == ("sender", "KeyError: 'nobody'")
    assert found["violated_peer_dies"][0][1:] == ("sender", "the process ended with -11 and no result")
    assert ("I51", "R_1_0", "R_1_0, shm_R_1_0_lockfile.lock") in found["violated_residue"]
    assert found["violated_lost"] == [("I36", "R", "4 frames, no error")]
    assert ("I37b", "producer.save", "not alive before shutdown") in found["violated_dead_thread"]
    assert not any(found[n] for n in NAMES if not n.startswith("violated"))


def test_traces_carry_no_prefix(results, prefix):
    for name in NAMES:
        for event in results[name].trace:
            assert prefix not in str(event), name
    keys = {e.key for e in results["held_stream"].trace if e.point == "put.enter"}
    assert keys == {"R_1_0", "R_1_1"}


def test_the_trace_of_a_stream(results):
    trace = [str(e) for e in results["held_stream"].trace]
    assert "producer.save: put.enter(R_1_0)" in trace
    assert "consumer.recv: commit.exit(R_1_0)" in trace
    assert "vocoder: deliver(R)" in trace
    actors = {e.actor.split(".")[0] for e in results["held_stream"].trace}
    assert actors == {"main", "producer", "consumer", "talker", "vocoder"}, (
        "an unnamed thread reached a point"
    )


def test_points_of_a_peer_are_in_the_one_trace(results):
    actors = {e.actor for e in results["held_peer"].trace}
    assert {"sender", "sender.producer.save", "consumer.recv", "main"} <= actors


def test_only_what_was_left_on_purpose_is_residue(results):
    for name in NAMES:
        assert bool(results[name].residue) == (name == "violated_residue"), results[name].residue


def test_another_run_agrees(results):
    """In either mode: the same verdicts and the same invariants as one more run under a prefix."""
    again = play("prefix", f"ovh{secrets.token_hex(4)}-")
    for name in NAMES:
        assert again[name].verdict is results[name].verdict
        assert {f.invariant for f in again[name].findings} == {f.invariant for f in results[name].findings}
