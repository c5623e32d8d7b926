"""What the lanes of a fuzzed program share: stages, requests, waits, and the engine that ends a request."""

from __future__ import annotations

from collections.abc import Callable

from omni_verify.faults.nemeses import Roaming
from omni_verify.harness.fuzz.model import Stream
from omni_verify.harness.fuzz.program import Program
from omni_verify.harness.handle import Handle
from omni_verify.harness.script import Script
from omni_verify.harness.stage import Stage

__all__ = ["FuzzState", "Id"]

Id = tuple[str, int]
"""A request: external id and generation."""


class FuzzState:
    """State of one run.

    Attributes:
        producer, consumer: the stages under test: talker and code2wav.
        thinker: the stage before the talker, which then receives and sends; None in a program of two stages.
        streams: what talker and code2wav were told and saw of each request.
        fed: the same of thinker and talker.
        roaming: the nemeses and what they struck.
    """

    producer: Stage
    consumer: Stage
    roaming: Roaming

    def __init__(self, script: Script, program: Program) -> None:
        self.script, self.program = script, program
        self.thinker: Stage | None = None
        self.streams: dict[Id, Stream] = {}
        self.fed: dict[Id, Stream] = {}
        self._sent: dict[Id, tuple[Stage, Handle]] = {}
        self._got: dict[Id, Handle] = {}
        self._joined: dict[Id, int] = {}
        """Request -> number of the event after which its reader was told of it."""
        self._feeds: dict[Id, Handle] = {}
        self._left: set[Id] = set()
        """Requests with which the consumer's stage is done."""
        self._to_feed: set[Id] = set()
        """Requests for which the program has operations of the thinker."""
        self._fed_out: set[Id] = set()
        """Those with which the thinker is done."""
        self._waits: dict[str, Callable[[], bool]] = {}
        self._stopped = False

    def _wait(self, lane: str, ready: Callable[[], bool], what: str) -> None:
        self._waits[lane] = ready
        self.script.until(ready, what)
        del self._waits[lane]

    def _nobody_can_go_on(self, stage: Stage | None = None) -> bool:
        """Tell whether every lane but the one that reads at `stage` has ended or waits for what is not there.

        A lane that reads behind the stage waits for it, and gives up later.
        """
        reader = "talker" if stage is self.producer else "code2wav"
        runtime = self.script.runtime
        for lane in runtime.actors:
            if lane in runtime.finished or lane == reader:
                continue
            if lane == "code2wav" and self.script.reads(self.consumer):
                continue
            if lane not in self._waits or self._waits[lane]():
                return False
        return True

    def _is_over(self, me: Id) -> bool:
        """Tell whether every stage is done with a request."""
        fed = me not in self._to_feed or me in self._fed_out
        return fed and me in self._left and me in self._sent and self._sent[me][1].over

    def _live(self, me: Id) -> Handle | None:
        handle = self._sent[me][1]
        return None if handle.over else handle

    def _expired(self, sender: Stage, failed: Handle, reader: str, since: int) -> bool:
        """Tell whether a stream failed on record, and its keys were taken back before it was first asked for.

        An error terminal stays readable for a bounded time. An engine reads all its requests side by side; a
        lane here reads one after the other, and may come to this one too late. The record is what an engine
        would have ended the request by (I32, I36).

        Args:
            sender, failed: the sending stage and its request.
            reader: lane that receives it.
            since: number of the event after which the reader may have asked for this request.
        """
        with sender.turn:
            sender.collect()
        trace, label = self.script.runtime.trace, failed.label
        asked = next((e.seq for e in trace.since("load.enter", since, label) if e.actor == reader), None)
        if asked is None or not failed.sent.refused:
            return False
        key = f"{label}_{sender.stage_id}_0"
        put = max((e.seq for e in trace.at("put.exit", key) if e.seq < asked), default=None)
        taken = () if put is None else trace.since("cleanup.enter", put, key)
        return any(e.seq < asked for e in taken)

    # -- what the engine does when a request ends early ------------------------------------------

    def _abort_producer(self, me: Id) -> None:
        stage, handle = self._sent[me]
        with stage.turn:
            if not handle.over:
                stage.abort(handle)

    def _drop(self, me: Id) -> None:
        """Abort a request at its consumer."""
        self.streams[me].aborted = True
        with self.consumer.turn:
            handle = self._got.get(me)
            if handle is not None and not handle.over:
                self.consumer.abort(handle)
            self._left.add(me)

    def _feed_no_more(self, me: Id) -> None:
        """Abort a request at the thinker."""
        if self.thinker is None:
            return
        with self.thinker.turn:
            handle = self._feeds.get(me)
            if handle is not None:
                self.fed[me].aborted = True
                if not handle.over:
                    self.thinker.abort(handle)
            self._fed_out.add(me)
