"""A schedule as blocks: who runs, for how many decisions. Joining two blocks of one task saves switches.

Jalbert, Sen, "A Trace Simplification Technique for Effective Debugging of Concurrent Programs" (FSE 2010):
a block is moved to the next one of its task, forwards or backwards, as long as the failure stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from omni_verify.engine.control.task import Task
from omni_verify.engine.minimise.attempts import Attempts
from omni_verify.engine.strategies.base import Strategy
from omni_verify.engine.strategies.replay import Replay

__all__ = ["join_blocks"]

Block = tuple[int, int]
"""Id of a task, decisions that it wins in a row."""


class _Recorder(Replay):
    """Follow a tape and note who won each decision, and every data choice."""

    def __init__(self, tape: Sequence[int]) -> None:
        super().__init__(tape)
        self.blocks: list[Block] = []
        self.data: list[int] = []

    def pick(self, options: Sequence[Task], current: Task, ready: int) -> int:
        index = super().pick(options, current, ready)
        ident = options[index].id
        if self.blocks and self.blocks[-1][0] == ident:
            self.blocks[-1] = (ident, self.blocks[-1][1] + 1)
        else:
            self.blocks.append((ident, 1))
        return index

    def choose(self, n: int, what: str) -> int:
        self.data.append(super().choose(n, what))
        return self.data[-1]


class _Blocks(Strategy):
    """Run blocks in their order; a block whose task cannot go on is left, then the current task goes on."""

    name = "blocks"

    def __init__(self, blocks: Sequence[Block], data: Sequence[int]) -> None:
        self.blocks, self.data = blocks, data
        self.preemptions = self._block = self._won = self._datum = 0

    def new_execution(self) -> bool:
        self.preemptions = self._block = self._won = self._datum = 0
        return True

    def pick(self, options: Sequence[Task], current: Task, ready: int) -> int:
        index, stay = self._wanted(options, ready), -1
        for i in range(ready):
            if options[i] is current:
                stay = i
        if index < 0:
            index = max(stay, 0)
        self.preemptions += stay >= 0 and index != stay
        return index

    def _wanted(self, options: Sequence[Task], ready: int) -> int:
        while self._block < len(self.blocks):
            ident, length = self.blocks[self._block]
            for i in range(ready):
                if options[i].id == ident:
                    self._won += 1
                    if self._won >= length:
                        self._block, self._won = self._block + 1, 0
                    return i
            self._block, self._won = self._block + 1, 0
        return -1

    def choose(self, n: int, what: str) -> int:
        self._datum += 1
        return min(self.data[self._datum - 1], n - 1) if self._datum <= len(self.data) else 0


def join_blocks(attempts: Attempts, reruns: int) -> None:
    """Join blocks of the best schedule as long as that makes it better, within ``reruns`` executions."""
    enough = max(0, attempts.left - reruns)
    progress = True
    while progress and attempts.left > enough:
        progress = False
        recorder = _Recorder(attempts.best.tape)
        recorder.new_execution()
        attempts.run(recorder)
        for blocks in _candidates(recorder.blocks):
            if attempts.left <= enough:
                return
            trial = _Blocks(blocks, recorder.data)
            trial.new_execution()
            run = attempts.run(trial)
            if run is not None and attempts.keep(run, trial.preemptions):
                progress = True
                break


def _candidates(blocks: list[Block]) -> Iterator[list[Block]]:
    """Every way to join a block with the next one of its task, nearest pairs first."""
    pairs = []
    for i, (ident, _) in enumerate(blocks):
        for j in range(i + 2, len(blocks)):
            if blocks[j][0] == ident:
                pairs.append((j - i, i, j))
                break
    for _, i, j in sorted(pairs):
        ident, length = blocks[i][0], blocks[i][1] + blocks[j][1]
        between = blocks[i + 1 : j]
        yield [*blocks[:i], (ident, length), *between, *blocks[j + 1 :]]
        yield [*blocks[:i], *between, (ident, length), *blocks[j + 1 :]]
