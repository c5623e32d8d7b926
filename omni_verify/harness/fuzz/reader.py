"""The consumer's scheduler and the client in a fuzzed program."""

from __future__ import annotations

import msgspec

from omni_verify.harness.fuzz.rules import Op
from omni_verify.harness.fuzz.state import FuzzState, Id

__all__ = ["ReaderVerbs"]


class ReaderVerbs(FuzzState):
    """Verbs of the lanes ``code2wav`` and ``client``."""

    _rushed: dict[Id, int | None]

    # -- the client -----------------------------------------------------------------------------

    def _abort(self, op: Op, me: Id) -> None:
        self._wait("client", lambda: me in self._sent, f"{me[0]} is admitted")
        if op.n:
            self._feed_no_more(me)
            self._abort_producer(me)
            self._drop(me)
        else:
            self._drop(me)
            self._abort_producer(me)
            self._feed_no_more(me)

    def _leave(self, op: Op, me: Id) -> None:
        self._wait("client", lambda: me in self._got or me in self._left, f"{me[0]} has a consumer")
        self._drop(me)

    # -- the consumer's scheduler -----------------------------------------------------------------

    def _join(self, op: Op, me: Id) -> None:
        self._wait("code2wav", lambda: me in self._sent, f"{me[0]} is admitted")
        if me[1] > 1:
            self._wait("code2wav", lambda: self._clean(me) or self._stuck(), f"the last {me[0]} is reclaimed")
            if not self._clean(me):  # the first chunk comes later than this meeting: the engine gives up
                self._drop(me)
                self._abort_producer(me)
                self._feed_no_more(me)
        with self.consumer.turn:
            if me not in self._left:
                resumable = bool(self._sent[me][1].request.resumable)
                self._joined[me] = len(self.script.runtime.trace)
                self._got[me] = self.consumer.admit(me[0], generation=me[1], resumable=resumable)
                if self.thinker is not None:
                    self._got[me].got.sender = self.producer.name

    def _clean(self, me: Id) -> bool:
        """Tell whether nothing that an earlier request of the id left can reach this one."""
        if me in self._left:
            return True
        if me in self._rushed:
            since, first = self._rushed[me], f"{me[0]}_1_0"
            puts = () if since is None else self.script.runtime.trace.since("put.exit", since)
            if not any(e.key == first for e in puts):
                return False
        return self.script.drained(self.producer)

    def _stuck(self) -> bool:
        return self._nobody_can_go_on() and self.script.drained(self.producer)

    def _read(self, op: Op, me: Id) -> None:
        handle = self._got.get(me)
        if handle is not None and not handle.over:
            self.consumer.consume(handle, frames=len(handle.got.frames) + op.n)
            handle.got.waiting = False

    def _finish(self, op: Op, me: Id) -> None:
        handle = self._got.get(me)
        if handle is None:
            return
        stream = self.streams[me]
        if not handle.over:
            self.consumer.consume(handle)
            if handle.got.waiting and not handle.got.frames:
                stream.expired = self._expired(*self._sent[me], "code2wav", self._joined[me])
        stream.got = msgspec.structs.replace(handle.got, frames=list(handle.got.frames))
        stream.read_to_end = not handle.got.aborted
        with self.consumer.turn:
            if not handle.over:  # its deadline would do this
                handle.got.waiting = False
                self.consumer.abort(handle)
            self._left.add(me)
