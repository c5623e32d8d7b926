"""One run of a fuzzed program: its stages, its lanes, and the model's judgement."""

from __future__ import annotations

from omni_verify.contracts.keys import key_of_lock_name
from omni_verify.faults.nemeses import Harm, NemesisSpec
from omni_verify.harness.fuzz.model import judge
from omni_verify.harness.fuzz.program import Program
from omni_verify.harness.fuzz.reader import ReaderVerbs
from omni_verify.harness.fuzz.rules import LANES, VERBS, Op
from omni_verify.harness.fuzz.store import fresh_store
from omni_verify.harness.fuzz.talker import TalkerVerbs
from omni_verify.harness.fuzz.thinker import ThinkerVerbs
from omni_verify.harness.script import Script
from omni_verify.harness.siege import Siege
from omni_verify.harness.stage import Stage

__all__ = ["FuzzRun"]

_POLLS = 50
"""Idle moments of the receive thread within which it must have polled everything once."""
_SEVERITY = (Harm.NONE, Harm.STREAM, Harm.SILENT)


class FuzzRun(TalkerVerbs, ReaderVerbs, ThinkerVerbs):
    """Plays a program on a script.

    Attributes:
        roaming: the nemeses and what they struck.
        store: objects of the other connector, None when it is not used.
    """

    def __init__(self, script: Script, program: Program, specs: list[NemesisSpec]) -> None:
        super().__init__(script, program)
        self.store: dict[str, bytes] | None = None
        self.roaming = Siege(script, specs).roaming
        self._meetings: dict[int, set[str]] = {}
        self._rushed = {}

    def play(self) -> None:
        """Build the stages, run the actors, judge by the model."""
        script = self.script
        script._others_done = self._nobody_can_go_on  # type: ignore[method-assign]
        if self.program.connector:
            self.store = fresh_store(script.target)
        if self.program.stages > 2:
            self.thinker = script.stage(0, "thinker", **self._connector())
        self._start_producer()
        self.consumer = script.consumer(**self._connector())
        self._run_lanes()
        if self.thinker is not None:
            self._let_poll(self.producer)
        self._let_poll(self.consumer)
        for stream in (*self.fed.values(), *self.streams.values()):
            stream.harm = self._harm(stream.label)
            script.broken += judge(stream, records_failures=script.target.capabilities.send_failures)

    def _run_lanes(self) -> None:
        steps = _numbered(self.program)
        self._to_feed = {(op.label, generation) for op, generation, _ in steps if VERBS[op.verb] == "thinker"}
        self._lanes = [lane for lane in LANES if any(VERBS[op.verb] == lane for op, _, _ in steps)]
        for lane in self._lanes:
            mine = [step for step in steps if VERBS[step[0].verb] in (lane, "")]
            self.script.actor(lane, self._act, lane, mine)
        self.script.run()

    def _let_poll(self, stage: Stage) -> None:
        """Let the receive thread pass once: it drops what it polled for an aborted request then."""
        trace, name, adapter = self.script.runtime.trace, stage.name, stage.adapter
        since = len(trace)

        def passed() -> bool:
            return not adapter._pending_load_reqs or (
                sum(1 for _ in trace.since("idle.recv", since, name)) >= _POLLS
            )

        self.script.until(passed, f"{name} has dropped what nobody waits for")

    def _act(self, lane: str, steps: list[tuple[Op, int, int]]) -> None:
        for op, generation, number in steps:
            if op.verb == "sync":
                self._meet(lane, number)
            elif not self._stopped:
                getattr(self, f"_{op.verb}")(op, (op.label, generation))

    def _meet(self, lane: str, number: int) -> None:
        there = self._meetings.setdefault(number, set())
        there.add(lane)
        self._wait(lane, lambda: len(there) == len(self._lanes), "the others at a meeting")

    # -- judgement --------------------------------------------------------------------------------

    def _harm(self, label: str) -> Harm:
        return max(
            (s.harm for s in self.roaming.struck if s.concerns(label)),
            key=_SEVERITY.index,
            default=Harm.NONE,
        )

    def excused(self, name: str) -> bool:
        """Tell whether a nemesis itself made this object of /dev/shm outlive its stream."""
        key = key_of_lock_name(name) or name
        return any(s.leaves and s.key == key for s in self.roaming.struck)


def _numbered(program: Program) -> list[tuple[Op, int, int]]:
    """Each operation with the generation that it means and its place."""
    generations: dict[str, int] = {}
    steps = []
    for number, op in enumerate(program.ops):
        if op.verb == "admit":
            generations[op.label] = generations.get(op.label, 0) + 1
        steps.append((op, generations.get(op.label, 0), number))
    return steps
