"""A flag is tested outside the lock; the notify comes between the test and the wait."""

import threading


class Box:
    def __init__(self):
        self.cond = threading.Condition()
        self.full = False

    def put(self):
        with self.cond:
            self.full = True
            self.cond.notify()

    def wait_bad(self):
        if not self.full:
            with self.cond:
                self.cond.wait()

    def wait_good(self):
        with self.cond:
            while not self.full:
                self.cond.wait()


def _run(wait):
    box = Box()
    threads = [threading.Thread(target=wait, args=(box,)), threading.Thread(target=box.put)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def buggy():
    _run(Box.wait_bad)


def fixed():
    _run(Box.wait_good)
