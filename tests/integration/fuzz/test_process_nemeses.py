"""Signals to the process of a stage: what was put is read, the other stage does not wait, nothing stays."""

import os
import secrets
from signal import SIGCONT

import pytest

from omni_verify import targets
from omni_verify.faults.nemeses import nemeses
from omni_verify.harness.case import run_case
from omni_verify.harness.scenario import Scenario
from omni_verify.settings import Settings
from omni_verify.verdict import Verdict


@pytest.fixture
def prefix():
    made = f"ovt{secrets.token_hex(4)}-"
    yield made
    assert not [n for n in os.listdir("/dev/shm") if made in n]


def play(program, prefix):
    """Run in a forked child: the harness forks peers, which a test process with threads must not."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            answer = run(program, prefix)
        except BaseException as error:
            answer = repr(error)
        os.write(write, answer[:4000].encode())
        os._exit(0)
    os.waitpid(pid, 0)
    os.close(write)
    with open(read, "rb") as file:
        return file.read().decode()


def run(program, prefix):
    target = targets.resolve("reference")
    target.prepare()
    target.load()
    case = Scenario(
        id="test/signal",
        program=program,
        story="A test.",
        invariants=("I24", "I36", "I53"),
        source="test",
        processes=True,
    )
    bounds = Settings(gate_s=20.0, wait_s=20.0)
    result = run_case(target, case, settings=bounds, prefix=prefix, isolation="prefix")
    return f"{result.verdict}|{result.reason}|{result.findings}"


@pytest.mark.parametrize("name", ["sigkill", "sigterm"])
def test_a_sender_that_dies_leaves_what_it_put_to_be_read(name, prefix):
    signal = nemeses()[name].signal

    def program(s):
        def send(peer):
            producer = peer.producer()
            producer.admit("R")
            producer.emit("R", 4)
            producer.emit("R", 4)
            peer.drain(producer)
            peer.mark("sent")
            peer.until(lambda: False, "its death")

        sender = s.process("sender", send)
        s.start_processes()
        s.await_point("mark(sent)")
        sender.kill(signal)
        s.await_point("process.end(sender)")
        consumer = s.consumer()
        consumer.admit("R")
        consumer.consume("R", frames=8)
        s.expect("I36", len(consumer.handle("R").got.frames) == 8, "what was put arrives")
        consumer.abort("R")
        s.audit_quiet = False

    assert play(program, prefix).startswith(Verdict.HELD)


def test_a_sender_that_stands_still_inside_a_put_does_not_stop_the_consumer(prefix):
    stop, go_on = nemeses()["sigstop"].signal, SIGCONT

    def program(s):
        def send(peer):
            producer = peer.producer()
            producer.admit("R")
            producer.emit("R", 4)
            peer.drain(producer)
            peer.mark("sent")
            producer.end("R", 1)
            peer.until(lambda: False, "its death")

        sender = s.process("sender", send)
        s.start_processes()
        s.await_point("put.enter(R_1_1)")
        sender.kill(stop)
        consumer = s.consumer()
        consumer.admit("R")
        consumer.consume("R", frames=4)
        consumer.tick()
        s.polls(consumer, "R")  # it polls on, and does not wait for the sender
        sender.kill(go_on)
        consumer.consume("R", frames=5, settle=False)
        s.expect("I36", len(consumer.handle("R").got.frames) == 5, "the stream arrives whole")
        sender.kill()
        s.await_point("process.end(sender)")
        s.audit_quiet = False

    assert play(program, prefix).startswith(Verdict.HELD)
