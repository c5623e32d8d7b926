"""Two locks taken in opposite orders."""

import threading


def _run(first, second):
    def both(one, two):
        with one, two:
            pass

    a, b = threading.Lock(), threading.Lock()
    locks = {"a": a, "b": b}
    threads = [
        threading.Thread(target=both, args=[locks[name] for name in order]) for order in (first, second)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def buggy():
    _run("ab", "ba")


def fixed():
    _run("ab", "ab")
