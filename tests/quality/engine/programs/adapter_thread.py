"""An object starts its own daemon sender; closing it does not wait for what was accepted."""

import threading
from collections import deque


class Adapter:
    def __init__(self):
        self.pending = deque()
        self.sent = []
        self.cond = threading.Condition()
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.loop, daemon=True)
        self.thread.start()

    def loop(self):
        while not self.stop.is_set():
            while self.pending:
                self.sent.append(self.pending.popleft())
            with self.cond:
                if not self.pending and not self.stop.is_set():
                    self.cond.wait(timeout=0.1)

    def send(self, item):
        self.pending.append(item)
        with self.cond:
            self.cond.notify()

    def close_bad(self):
        self.stop.set()
        with self.cond:
            self.cond.notify()

    def close_good(self):
        self.close_bad()
        self.thread.join()
        while self.pending:
            self.sent.append(self.pending.popleft())


def _run(close):
    adapter = Adapter()
    adapter.send("chunk")
    close(adapter)
    assert adapter.sent == ["chunk"], "accepted and never sent"


def buggy():
    _run(Adapter.close_bad)


def fixed():
    _run(Adapter.close_good)
