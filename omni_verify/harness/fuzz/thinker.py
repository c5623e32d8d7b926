"""The stage before the talker in a fuzzed program, and what the talker receives from it."""

from __future__ import annotations

import msgspec

from omni_verify.harness.fuzz.model import Stream
from omni_verify.harness.fuzz.rules import Op
from omni_verify.harness.fuzz.state import FuzzState, Id
from omni_verify.harness.handle import Handle

__all__ = ["ThinkerVerbs"]


class ThinkerVerbs(FuzzState):
    """Verbs of the lane ``thinker``, and those of the lane ``talker`` that receive."""

    # -- the thinker's scheduler --------------------------------------------------------------------

    def _feed(self, op: Op, me: Id) -> None:
        assert self.thinker is not None
        if (handle := self._feeding(me)) is None:
            return
        with self.thinker.turn:
            if not handle.over:
                self.thinker.emit(handle, op.n)
                self.fed[me].frames += op.n

    def _close(self, op: Op, me: Id) -> None:
        assert self.thinker is not None
        if (handle := self._feeding(me)) is None:
            return
        with self.thinker.turn:
            if not handle.over:
                self.thinker.end(handle, op.n)
                self.fed[me].frames += op.n
                self.fed[me].ended = True
            self._fed_out.add(me)

    def _feeding(self, me: Id) -> Handle | None:
        """The thinker's request, admitted with its first output; None when it is over.

        Asked and admitted in one turn: while an abort of another request holds the turn, the client may go on
        to abort this one, and would find no request to abort.
        """
        assert self.thinker is not None
        self._wait("thinker", lambda: me in self._sent or me in self._fed_out, f"{me[0]} is admitted")
        with self.thinker.turn:
            if me in self._fed_out:
                return None
            if me not in self._feeds:
                self._feeds[me] = self.thinker.admit(me[0], generation=me[1])
                self.fed[me] = Stream(label=me[0], generation=me[1])
            return self._feeds[me]

    # -- the talker's scheduler ---------------------------------------------------------------------

    def _tick(self, op: Op, me: Id) -> None:
        for _ in range(op.n):
            self.producer.tick()
            self._heed_errors()

    def _hear(self, op: Op, me: Id) -> None:
        """Receive `n` more frames, or everything to the thinker's end; give up when nothing can arrive."""
        handle = self._live(me)
        if handle is None:
            return
        if op.n:
            self.producer.consume(handle, frames=len(handle.got.frames) + op.n)
        else:
            self.producer.consume(handle)
            if me in self.fed:
                self.fed[me].got = msgspec.structs.replace(handle.got, frames=list(handle.got.frames))
                self.fed[me].read_to_end = not handle.got.aborted
        handle.got.waiting = False
        self._heed_errors()

    def _heed_errors(self) -> None:
        """An engine ends a request on every stage when one of them fails to receive it."""
        for me, (_, handle) in list(self._sent.items()):
            if handle.got.error and me not in self._left:
                self._drop(me)
                self._feed_no_more(me)
