"""An abort sweeps the keys that are announced; a put in flight announces its key too late."""

import threading


class Sender:
    def __init__(self):
        self.lock = threading.Lock()
        self.segments = set()
        self.pending = set()
        self.aborted = False

    def put_bad(self, key):
        if self.aborted:
            return
        self.segments.add(key)
        with self.lock:
            self.pending.add(key)

    def put_good(self, key):
        with self.lock:
            if self.aborted:
                return
            self.pending.add(key)
        self.segments.add(key)
        with self.lock:
            if self.aborted:
                self.segments.discard(key)

    def abort(self):
        with self.lock:
            self.aborted = True
            for key in list(self.pending):
                self.segments.discard(key)
            self.pending.clear()


def _run(put):
    sender = Sender()
    threads = [threading.Thread(target=put, args=(sender, "r_0")), threading.Thread(target=sender.abort)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if sender.pending:
        sender.abort()  # the put came first as a whole: an ordinary end
    assert not sender.segments, "orphaned segment"


def _run_bad():
    sender = Sender()
    threads = [threading.Thread(target=sender.put_bad, args=("r_0",)), threading.Thread(target=sender.abort)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not (sender.segments and sender.aborted), "orphaned segment"


def buggy():
    _run_bad()


def fixed():
    _run(Sender.put_good)
