"""Scenarios for the tests of the runner, on a real target; the name says what must come out."""

import os
import signal
import threading


def held_stream(s):
    producer, consumer = s.pair()
    producer.admit("R")
    consumer.admit("R")
    s.actor("talker", lambda: [producer.emit("R", 4), producer.end("R", 2)])
    s.actor("vocoder", consumer.consume, "R")
    s.require("deliver(R)")
    s.run_order("put.exit(R_1_0) < get.exit(R_1_0)#1", "save.exit(R)#2 < actor.end(talker)")


def held_abort(s):
    producer, consumer = s.pair()
    producer.admit("R")
    consumer.admit("R")

    def client():
        producer.abort("R")
        consumer.abort("R")

    s.actor("talker", producer.emit, "R", 4)
    s.actor("client", client)
    s.run_order("put.enter(R_1_0) < abort.enter(R)", "abort.exit(R) < put.exit(R_1_0)", blocked="I29")


def held_peer(s):
    def send(peer):
        producer = peer.producer()
        producer.admit("R")
        for _ in range(3):
            producer.emit("R", 2)
        producer.end("R")
        peer.until(
            lambda: not peer.shm(), "the consumer has read it all: a sender that closes takes the rest back"
        )

    s.process("sender", send)
    s.start_processes()
    consumer = s.consumer()
    consumer.admit("R")
    consumer.consume("R", settle=False)
    s.join_processes()
    s.require("sender.producer.save:put.exit(R_1_0)", "sender:save.exit(R)", "process.end(sender)")
    s.order.add("put.enter(R_1_0) < commit.enter(R_1_0)", "save.exit(R)#4 < process.end(sender)")


def held_killed_peer(s):
    """The sender dies inside its second put: what it had sent arrives, what it was writing never ends."""

    def send(peer):
        producer = peer.producer()
        producer.admit("R")
        producer.emit("R", 2)
        producer.emit("R", 2)
        peer.until(lambda: False, "its death")

    sender = s.process("sender", send)
    s.declare("mark(never) < put.exit(R_1_1)")
    s.start_processes()
    s.await_point("put.enter(R_1_1)")
    consumer = s.consumer()
    consumer.admit("R")
    consumer.consume("R", frames=2)
    sender.kill()
    s.expect("I29", sender.returncode == -signal.SIGKILL, "it was killed", found=sender.returncode)
    s.mark("never")
    s.expect("I29", not s.seen_point("put.exit(R_1_1)"), "the dead put never ends")
    s.order.edges.clear()
    consumer.abort("R")
    s.audit_quiet = False


def inconclusive_unreachable(s):
    producer, _ = s.pair()
    producer.admit("R")
    s.actor("talker", producer.emit, "R", 4)
    s.run_order("commit.exit(R_1_0) < put.enter(R_1_0)")


def inconclusive_unreached(s):
    held_stream(s)
    s.require("abort.enter(R)")


def inconclusive_other_order(s):
    held_stream(s)
    s.order.add("commit.exit(R_1_0) < put.enter(R_1_0)")


def inconclusive_endless(s):
    s.pair()
    s.actor("endless", threading.Event().wait, 30)
    s.run()


def inconclusive_nothing(s):
    s.pair()


def inconclusive_peer_wait(s):
    s.process("sender", lambda peer: peer.until(lambda: False, "a miracle"))
    s.start_processes()
    s.connector().put("1", "2", s.key("R", 1, 0), s.payload())
    s.natural_release = s.audit_quiet = False
    s.join_processes(bound_factor=4)


def violated_raises(s):
    producer, _ = s.pair()
    producer.admit("R")
    producer.adapter.save_async = None  # a target whose verb is not even callable
    producer.emit("R", 1)


def violated_actor_raises(s):
    s.pair()
    s.actor("client", lambda: {}["nobody"])
    s.run()


def violated_peer_raises(s):
    s.process("sender", lambda peer: {}["nobody"])
    s.start_processes()
    s.join_processes()


def violated_peer_dies(s):
    s.process("sender", lambda peer: os.kill(os.getpid(), signal.SIGSEGV))
    s.start_processes()
    s.join_processes()


def violated_residue(s):
    s.connector().put("1", "2", s.key("R", 1, 0), s.payload())
    s.connectors.clear()  # nobody will close it


def violated_lost(s):
    producer, consumer = s.pair()
    producer.admit("R")
    consumer.admit("R")
    producer.emit("R", 4)
    producer.handle("R").sent.frames += 1  # as if the target had dropped one
    producer.end("R")
    consumer.consume("R")


def violated_dead_thread(s):
    producer, _ = s.pair()
    producer.admit("R")
    producer.emit("R", 1)
    s.drain()
    producer.adapter.stop_event.set()
    producer.adapter.save_thread.join(10)
    producer.adapter.stop_event.clear()


def held_hostile(s):
    producer, consumer = s.pair()
    for label in ("a<b", "x#2", "(R)", "käse", "R_1_0", "a" * 100):
        producer.admit(label)
        consumer.admit(label)
        producer.emit(label, 1)
        producer.end(label)
        consumer.consume(label)
