"""Two threads find a slot empty and both create its value."""

import threading


class Registry:
    def __init__(self):
        self.lock = threading.Lock()
        self.values = {}
        self.created = []

    def get_bad(self, key):
        if key not in self.values:
            value = object()
            self.created.append(value)
            self.values[key] = value
        return self.values[key]

    def get_good(self, key):
        with self.lock:
            return self.get_bad(key)


def _run(get):
    registry = Registry()
    threads = [threading.Thread(target=get, args=(registry, "k")) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(registry.created) == 1, "created twice"


def buggy():
    _run(Registry.get_bad)


def fixed():
    _run(Registry.get_good)
