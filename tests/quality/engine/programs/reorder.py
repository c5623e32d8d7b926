"""SCTBench reorder_N: a reader sees the first of two writes and not the second."""

import threading


class Pair:
    def __init__(self):
        self.a = 0
        self.b = 0
        self.lock = threading.Lock()


def _set(pair):
    pair.a = 1
    pair.b = -1


def _set_locked(pair):
    with pair.lock:
        _set(pair)


def _check(pair):
    a = pair.a
    b = pair.b
    assert (a, b) in ((0, 0), (1, -1)), f"half a write: {a}, {b}"


def _check_locked(pair):
    with pair.lock:
        _check(pair)


def _run(setters, write, check):
    pair = Pair()
    threads = [threading.Thread(target=write, args=(pair,)) for _ in range(setters)]
    threads.append(threading.Thread(target=check, args=(pair,)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def buggy_3():
    _run(3, _set, _check)


def buggy_5():
    _run(5, _set, _check)


def buggy_10():
    _run(10, _set, _check)


def fixed_3():
    _run(3, _set_locked, _check_locked)


def fixed_5():
    _run(5, _set_locked, _check_locked)


def fixed_10():
    _run(10, _set_locked, _check_locked)
