"""Two threads increment one counter; the increment is a load and a store."""

import threading


class Counter:
    def __init__(self):
        self.n = 0


def _run(add):
    counter, lock = Counter(), threading.Lock()
    threads = [threading.Thread(target=add, args=(counter, lock)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.n == 2, f"an increment was lost: {counter.n}"


def _add(counter, lock):
    counter.n += 1


def _add_locked(counter, lock):
    with lock:
        counter.n += 1


def buggy():
    _run(_add)


def fixed():
    _run(_add_locked)
