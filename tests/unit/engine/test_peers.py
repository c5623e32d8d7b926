"""Peer processes: their points pass the parent's gates, and whatever ends them, the parent knows."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

PRELUDE = """
import os, signal, sys, threading, time
sys.path[:] = {path!r}
from omni_verify.engine.gates import ThreadRuntime
from omni_verify.engine.order import PartialOrder
from omni_verify.engine.peers import Peer, PeerRuntime

def setup(*chains, gate_s=30.0, prefix=""):
    order = PartialOrder()
    order.add(*chains)
    return ThreadRuntime(order, gate_s=gate_s, wait_s=30.0, prefix=prefix)

def peer(runtime, name, body, gate_s=30.0, wait_s=30.0, prefix=""):
    def child(pipe):
        gate = PeerRuntime(name, pipe, gate_s=gate_s, wait_s=wait_s, prefix=prefix)
        gate.go.wait(30)
        body(gate)
    return Peer(name, runtime.keeper, child)

def happened(runtime):
    return [f"{{e.actor}}:{{e.point}}({{e.key}})" for e in runtime.trace]

def seen(runtime, text):
    runtime.until(lambda: text in happened(runtime), text)
"""


def play(program, **env):
    """Run a program in a fresh process: a peer is forked before any thread, and pytest has some."""
    text = PRELUDE.format(path=sys.path) + textwrap.dedent(program)
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=120, env={**os.environ, **env}
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_one_order_spans_the_processes():
    play("""
        runtime = setup("mark(a0) < mark(b0) < mark(a1) < mark(b1) < mark(m) < mark(a2)", prefix="p-")
        def three(name):
            return lambda gate: [gate.reach("mark", f"p-{name}{i}") for i in range(3)]
        peers = [peer(runtime, name, three(name), prefix="p-") for name in "ab"]
        for one in peers:
            one.start()
        runtime.reach("mark", "m")
        for one in peers:
            runtime.until(one.ended, "its end")
        passed = [t for t in happened(runtime) if ":mark" in t and t != "b:mark(b2)"]
        assert passed == [
            "a:mark(a0)", "b:mark(b0)", "a:mark(a1)", "b:mark(b1)", "main:mark(m)", "a:mark(a2)"
        ], passed
        assert not runtime.keeper.order.unobserved(runtime.trace)
        assert [p.returncode for p in peers] == [0, 0]
        starts = [t for t in happened(runtime) if "process." in t]
        assert sorted(starts) == [f"{n}:process.{w}({n})" for n in "ab" for w in ("end", "start")], starts
    """)


def test_a_peer_killed_at_a_gate_never_passes_it():
    """Its arrivals and those of its threads are forgotten before anybody can see that it has ended."""
    play("""
        runtime = setup("mark(open) < put.exit(R)", "mark(open) < get.exit(R)")
        def body(gate):
            both = lambda: (gate.reach("get.enter", "R"), gate.reach("get.exit", "R"))
            threading.Thread(target=both).start()
            gate.reach("put.enter", "R")
            gate.reach("put.exit", "R")
        one = peer(runtime, "sender", body)
        one.start()
        runtime.until(lambda: len(runtime.keeper.pending) == 2, "both threads stand at a gate")
        one.kill()
        assert one.ended()
        assert one.returncode == -signal.SIGKILL
        assert "sender:process.end(sender)" in happened(runtime), "who sees the end finds it in the trace"
        runtime.reach("mark", "open")
        assert not [t for t in happened(runtime) if ".exit" in t], happened(runtime)
        assert not runtime.keeper.pending
        one.kill()
    """)


def test_a_peer_that_was_never_started_can_be_killed():
    out = play("""
        runtime = setup()
        one = peer(runtime, "sender", lambda gate: None)
        one.kill()
        assert one.ended() and one.returncode == -signal.SIGKILL
        try:
            os.waitpid(one.pid, os.WNOHANG)
        except ChildProcessError:
            print("reaped")
    """)
    assert out == "reaped\n"


def test_a_peer_that_dies_by_itself_is_known_with_its_status():
    play("""
        runtime = setup()
        def die(gate):
            gate.reach("mark", "x")
            os.kill(os.getpid(), signal.SIGSEGV)
        one = peer(runtime, "sender", die)
        two = peer(runtime, "leaver", lambda gate: os._exit(7))
        three = peer(runtime, "raiser", lambda gate: 1 / 0)
        for p in (one, two, three):
            p.start()
        for p in (one, two, three):
            runtime.until(p.ended, "end")
        assert (one.returncode, two.returncode, three.returncode) == (-signal.SIGSEGV, 7, 70)
        assert "sender:mark(x)" in happened(runtime)
        assert {e.key: e.detail["returncode"] for e in runtime.trace.at("process.end")} == {
            "sender": -11, "leaver": 7, "raiser": 70
        }
    """)


def test_results_and_errors_come_back():
    play("""
        runtime = setup()
        def body(gate):
            gate.send("result", b"x" * 300_000)
            gate.send("error", "what it says")
        one = peer(runtime, "sender", body)
        one.start()
        runtime.until(one.ended, "end")
        assert one.result == b"x" * 300_000
        assert one.error == "what it says"
    """)


def test_fork_with_threads_running_is_refused():
    play("""
        runtime, stop = setup(), threading.Event()
        thread = threading.Thread(target=stop.wait, name="the-culprit")
        thread.start()
        try:
            peer(runtime, "sender", lambda gate: None)
            raise SystemExit("it forked")
        except RuntimeError as error:
            assert "before any thread" in str(error) and "the-culprit" in str(error)
        finally:
            stop.set()
    """)


def test_threads_of_a_peer_carry_its_name():
    play("""
        runtime = setup()
        def body(gate):
            def work(): gate.reach("mark", "x")
            threads = [threading.Thread(target=work, name="unnamed"), threading.Thread(target=work)]
            gate.name_thread(threads[1], "stage.save")
            for t in threads:
                t.start(); t.join()
            gate.reach("mark", "x")
        one = peer(runtime, "sender", body)
        one.start()
        runtime.until(one.ended, "end")
        actors = [e.actor for e in runtime.trace.at("mark")]
        assert actors == ["sender.unnamed", "sender.stage.save", "sender"], actors
    """)


def test_a_cut_of_the_parent_lets_a_peer_go_on():
    play("""
        from omni_verify.engine.runtime import Cut
        runtime = setup("mark(never) < put.enter(R)", gate_s=0.2)
        def body(gate):
            gate.reach("put.enter", "R")
            gate.send("result", gate.cut)
        one = peer(runtime, "sender", body)
        one.start()
        try:
            runtime.until(one.ended, "the peer ends", 0.3)
            raise SystemExit("not cut")
        except Cut as cut:
            assert "sender at gate put.enter(R) needs mark(never)" in str(cut), cut
        assert one._ended.wait(30) and one.returncode == 0
    """)


def test_bounds_inside_a_peer():
    play("""
        from omni_verify.engine.runtime import Cut
        runtime = setup("mark(never) < put.enter(R)")
        def gate_bound(gate):
            gate.reach("put.enter", "R")
            gate.send("result", gate.cut)
        def wait_bound(gate):
            try:
                gate.until(lambda: False, "a miracle")
            except Cut as cut:
                gate.send("result", str(cut))
        one = peer(runtime, "sender", gate_bound, gate_s=0.2)
        two = peer(runtime, "waiter", wait_bound, wait_s=0.2)
        for p in (one, two):
            p.start()
            runtime.until(p.ended, "end")
        assert one.result == "sender waited in vain at gate put.enter(R)"
        assert two.result == "waiter waited in vain for a miracle"
    """)


def test_a_peer_outlives_its_parent_by_no_gate():
    """A parent that dies leaves no process behind that waits for it for ever."""
    out = play("""
        runtime = setup("mark(never) < put.enter(R)")
        def body(gate):
            gate.reach("put.enter", "R")
        one = peer(runtime, "sender", body, gate_s=0.3)
        one.start()
        runtime.until(lambda: runtime.keeper.pending, "it stands there")
        print(one.pid, flush=True)
        os._exit(0)
    """)
    pid = int(out)
    for _ in range(600):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        try:
            with open(f"/proc/{pid}/stat") as stat:
                if stat.read().rpartition(")")[2].split()[0] == "Z":
                    return
        except FileNotFoundError:
            return
        signal.sigtimedwait([signal.SIGUSR2], 0.05)
    pytest.fail("the peer is still there")
