"""Two correct programs: any alarm on them is false."""

import queue
import threading


class Total:
    def __init__(self):
        self.n = 0
        self.lock = threading.Lock()


def counter3():
    """Three threads, three locked increments each."""
    total = Total()

    def work():
        for _ in range(3):
            with total.lock:
                total.n += 1

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert total.n == 9


def pipe():
    """Three threads joined by two bounded queues."""
    first, second, out = queue.Queue(1), queue.Queue(1), []

    def produce():
        for number in range(3):
            first.put(number)
        first.put(None)

    def double():
        while (number := first.get()) is not None:
            second.put(number * 2)
        second.put(None)

    def collect():
        while (number := second.get()) is not None:
            out.append(number)

    threads = [threading.Thread(target=body) for body in (produce, double, collect)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert out == [0, 2, 4]
