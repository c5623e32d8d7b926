"""A wait with a time-out gives up although the result is about to come, and its result is taken as given."""

import threading


class Call:
    def __init__(self):
        self.done = threading.Event()
        self.result = None

    def serve(self):
        self.result = 42
        self.done.set()

    def ask_bad(self):
        self.done.wait(timeout=5.0)
        assert self.result is not None, "timed out and went on"

    def ask_good(self):
        if self.done.wait(timeout=5.0):
            assert self.result is not None


def _run(ask):
    call = Call()
    threads = [threading.Thread(target=ask, args=(call,)), threading.Thread(target=call.serve)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def buggy():
    _run(Call.ask_bad)


def fixed():
    _run(Call.ask_good)
