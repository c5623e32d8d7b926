"""SCTBench twostage_N: two values under two locks; a reader comes between the two stages."""

import threading


class Data:
    def __init__(self):
        self.one = threading.Lock()
        self.two = threading.Lock()
        self.first = 0
        self.second = 0


def _write(data):
    with data.one:
        data.first = 1
    with data.two:
        data.second = data.first + 1


def _write_nested(data):
    with data.one:
        data.first = 1
        with data.two:
            data.second = data.first + 1


def _read(data):
    with data.one:
        if data.first == 0:
            return
        first = data.first
    with data.two:
        second = data.second
    assert second == first + 1, f"between the stages: {first}, {second}"


def _run(writers, write):
    data = Data()
    threads = [threading.Thread(target=write, args=(data,)) for _ in range(writers)]
    threads.append(threading.Thread(target=_read, args=(data,)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def buggy_2():
    _run(2, _write)


def buggy_10():
    _run(10, _write)


def fixed_2():
    _run(2, _write_nested)


def fixed_10():
    _run(10, _write_nested)
