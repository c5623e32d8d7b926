"""The producer's scheduler in a fuzzed program: it admits, emits, ends and releases requests."""

from __future__ import annotations

from typing import Any

from omni_verify.harness.fuzz.model import Stream
from omni_verify.harness.fuzz.rules import EAGER, RUSH, SESSION, Op
from omni_verify.harness.fuzz.state import FuzzState, Id
from omni_verify.harness.fuzz.store import OTHER
from omni_verify.harness.handle import Handle
from omni_verify.harness.siege import refused_by_id

__all__ = ["TalkerVerbs"]


class TalkerVerbs(FuzzState):
    """Verbs of the lane ``talker``."""

    _producers = 0
    _rushed: dict[Id, int | None]
    """Requests admitted while the last terminal of their id may be queued -> number of the event with which
    their first output was accepted, None before: what is put later is theirs."""

    def _admit(self, op: Op, me: Id) -> None:
        label, generation = me
        before, script = (label, generation - 1), self.script
        if generation > 1:
            self._wait("talker", lambda: self._is_over(before), f"every stage is done with {label}")
            requests = [(g, self._sent[label, g][1]) for g in range(1, generation)]
            ended = [handle for g, handle in requests if self._owes_release(label, g, handle)]
            if ended:  # also one that was released while its terminal was still queued: that had no effect
                if not op.n & RUSH:
                    script.drain(self.producer)
                self.producer.release(ended[-1])
            if not op.n & EAGER:
                script.drain(self.producer)
            self._free_at_thinker(label, generation)
        if op.n & RUSH and generation > 1:
            self._rushed[me] = None
        session = bool(op.n & SESSION)
        handle = self.producer.admit(label, generation=generation, resumable=session)
        self._sent[me] = (self.producer, handle)
        self.streams[me] = Stream(
            label=label, generation=generation, may_be_refused=generation > 1 and bool(op.n & EAGER)
        )
        if self.thinker is not None:
            handle.got.sender = self.thinker.name

    def _owes_release(self, label: str, generation: int, handle: Handle) -> bool:
        """Tell whether a request's stream outlives it: its terminal, or the error terminal of a failed one.

        An abort takes either along. A request that failed to receive ends without one, and its own failed
        stream lingers for its consumer, who has left.
        """
        return self.streams[label, generation].ended or not handle.sent.aborted

    def _free_at_thinker(self, label: str, generation: int) -> None:
        """Release what the thinker has sent under an id, so that the id is free there too."""
        if self.thinker is None:
            return
        self.script.drain(self.thinker)  # a release has no effect while the terminal is queued
        fed = [self._feeds[label, g] for g in range(1, generation) if (label, g) in self._feeds]
        if fed and not fed[-1].sent.aborted:
            self.thinker.release(fed[-1])
        self.script.drain(self.thinker)

    def _emit(self, op: Op, me: Id) -> None:
        with self.producer.turn:  # an abort comes before or after, as with one scheduler thread
            if (handle := self._live(me)) is None:
                return
            self.producer.emit(handle, op.n)
            self.streams[me].frames += op.n
            self._note_output(me)
        self._heed_refusal(me)

    def _segment(self, op: Op, me: Id) -> None:
        with self.producer.turn:
            if (handle := self._live(me)) is None:
                return
            request = handle.request
            request._omni_segment_generation = getattr(request, "_omni_segment_generation", 0)
            self.producer.emit(handle, op.n, segment_end=True)
            request.num_computed_tokens = 0
            request._omni_segment_generation += 1
            self.streams[me].frames += op.n
            self.streams[me].boundaries += 1
            self._note_output(me)
        self._heed_refusal(me)

    def _end(self, op: Op, me: Id) -> None:
        with self.producer.turn:
            if (handle := self._live(me)) is None:
                return
            handle.request.resumable = False
            self.producer.end(handle, op.n)
            self.streams[me].frames += op.n
            self.streams[me].ended = True
            self._note_output(me)
        self._heed_refusal(me)

    def _note_output(self, me: Id) -> None:
        if self._sent[me][1].sent.refused:  # what is put now is still the last request's
            return
        saved = self.script.runtime.trace.last("save.exit", me[0])
        if me in self._rushed and self._rushed[me] is None and saved is not None:
            self._rushed[me] = saved.seq

    def _late(self, op: Op, me: Id) -> None:
        """One more output of a request that is over, as a step in flight gives it."""
        stage, handle = self._sent[me]
        if not handle.over or stage is not self.producer:
            return
        self.script.drain(stage)
        stream = self.streams[me]
        before, handle.sent.refused = handle.sent.refused, ""
        computed = handle.request.num_computed_tokens + op.n
        with stage.turn:
            stage.hand_over(handle, handle.sent.frames, op.n, computed=computed)
        stream.late, stream.late_recorded = True, bool(handle.sent.refused)
        handle.sent.refused = before

    def _release(self, op: Op, me: Id) -> None:
        stage, handle = self._sent[me]
        with stage.turn:  # an abort that the turn is waited for may end the request before the consumer's end
            if stage is self.producer and (me in self._left or not handle.over):
                stage.release(handle)

    def _restart(self, op: Op, me: Id) -> None:
        self._kill_producer()
        self._start_producer()

    def _stop(self, op: Op, me: Id) -> None:
        self._stopped = True
        self._kill_producer()
        self.script.natural_release = False

    def _start_producer(self) -> None:
        self._producers += 1
        name = "producer" if self._producers == 1 else f"producer{self._producers}"
        kind: dict[str, Any] = {"receives": False}
        if self.thinker is not None:
            kind = {"receives": True, "worker_type": "ar"}
        self.producer = self.script.stage(1, name, chunk=self.program.chunk, **kind, **self._connector())
        self.producer.relays = self.thinker is not None

    def _connector(self) -> dict[str, Any]:
        return {"connector": OTHER} if self.program.connector else {}

    def _kill_producer(self) -> None:
        """Shut the stage down as it is; the engine drops its requests, the consumer aborts them."""
        stage, script = self.producer, self.script
        for me in self.streams:
            if not self._is_over(me):
                self._sent[me][1].sent.aborted = True
                self._drop(me)
        stage.adapter.shutdown()
        for thread in (stage.adapter.save_thread, stage.adapter.recv_thread):
            thread.join()
        for handle in stage.handles:
            handle.over = True
        script.stages.remove(stage)
        script.seen.sent += [h.sent for h in stage.handles]

    def _heed_refusal(self, me: Id) -> None:
        """An engine that is refused an id fails the request on every stage.

        Failures are recorded by request id: where the last request of the id may still fail, its record ends
        the new one too.
        """
        handle, stream = self._sent[me][1], self.streams[me]
        reason = handle.sent.refused
        by_id = refused_by_id(reason)
        if reason and (by_id or stream.may_be_refused) and me not in self._left:
            stream.refused = reason if by_id else ""
            if not handle.over:
                self.producer.abort(handle)
            self._drop(me)
            self._feed_no_more(me)
