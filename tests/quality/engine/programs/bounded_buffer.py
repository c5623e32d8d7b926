"""One condition for "not full" and "not empty", woken one at a time: the wake-up reaches the wrong side."""

import threading


class Buffer:
    def __init__(self, everybody):
        self.cond = threading.Condition()
        self.items = []
        self.everybody = everybody

    def _wake(self):
        if self.everybody:
            self.cond.notify_all()
        else:
            self.cond.notify()

    def put(self, item):
        with self.cond:
            while len(self.items) >= 1:
                self.cond.wait()
            self.items.append(item)
            self._wake()

    def get(self):
        with self.cond:
            while not self.items:
                self.cond.wait()
            item = self.items.pop()
            self._wake()
            return item


def _run(everybody):
    buffer = Buffer(everybody)

    def produce():
        buffer.put(1)
        buffer.put(2)

    threads = [threading.Thread(target=produce)]
    threads += [threading.Thread(target=produce)]
    threads += [threading.Thread(target=lambda: [buffer.get() for _ in range(2)]) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def buggy():
    _run(everybody=False)


def fixed():
    _run(everybody=True)
