"""Random small programs over modelled primitives, for tests that compare the engine with itself."""

import random

from omni_verify.engine import accesses
from omni_verify.engine.control import conditions, locks, queues, state, threads

KINDS = (
    "load",
    "store",
    "add",
    "lock",
    "try",
    "sem",
    "put",
    "get",
    "set",
    "wait",
    "notify",
    "await",
    "choose",
)
SMALL = ("load", "store", "add", "lock", "try", "sem", "put", "get", "set", "wait")


class Cell:
    def __init__(self):
        self.n = 0


class Program:
    """Two or three threads of a few operations on two cells and one primitive of each sort.

    Calling it runs it; ``outcome`` is then everything that its interleaving decided, or partial when
    it deadlocked.
    """

    def __init__(self, seed, *, threads=3, length=3, kinds=KINDS):
        draw = random.Random(seed)
        self.bodies = [
            [(draw.choice(kinds), draw.randrange(2)) for _ in range(draw.randrange(1, length + 1))]
            for _ in range(draw.randrange(2, threads + 1))
        ]
        self.outcome = None

    def __call__(self):
        self.cells = [Cell(), Cell()]
        self.locks = [locks.Lock(), locks.RLock()]
        self.sems = [locks.Semaphore(1), locks.Semaphore(2)]
        self.queues = [queues.Queue(1), queues.SimpleQueue()]
        self.events = [conditions.Event(), conditions.Event()]
        self.cond = conditions.Condition()
        self.logs = [[] for _ in self.bodies]
        self.outcome = ("partial",)
        workers = [threads.Thread(target=self._work, args=(i,)) for i in range(len(self.bodies))]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self.outcome = self._state()

    def _state(self):
        cells = tuple(cell.n for cell in self.cells)
        left = tuple(tuple(q.queue) for q in self.queues)
        return cells, tuple(map(tuple, self.logs)), left, tuple(e.flag for e in self.events)

    def _work(self, me):
        for kind, which in self.bodies[me]:
            getattr(self, "_" + kind)(me, which)

    def _load(self, me, which):
        self.logs[me].append(accesses.load(self.cells[which], "n", 0))

    def _store(self, me, which):
        accesses.store(me + 1, self.cells[which], "n", 0)

    def _add(self, me, which):
        accesses.store(accesses.load(self.cells[which], "n", 0) + 1, self.cells[which], "n", 0)

    def _lock(self, me, which):
        with self.locks[which]:
            self._add(me, 0)

    def _try(self, me, which):
        if self.locks[which].acquire(blocking=False):
            self.logs[me].append("got")
            self.locks[which].release()

    def _sem(self, me, which):
        with self.sems[which]:
            self._store(me, 1)

    def _put(self, me, which):
        self.queues[which].put(me)

    def _get(self, me, which):
        self.logs[me].append(self.queues[which].get())

    def _set(self, me, which):
        self.events[which].set()

    def _wait(self, me, which):
        self.logs[me].append(self.events[which].wait())

    def _notify(self, me, which):
        with self.cond:
            self.cond.notify(which + 1)

    def _await(self, me, which):
        with self.cond:
            self.logs[me].append(self.cond.wait(timeout=which + 1.0))

    def _choose(self, me, which):
        self.logs[me].append(state.current.sched.choose(which + 2, "value"))
