"""Two queues feed one worker; a late cleanup of a request removes the data of its id's next life."""

import queue
import threading


class Worker:
    def __init__(self, generations):
        self.puts = queue.Queue()
        self.cleanups = queue.Queue()
        self.store = {}
        self.generations = generations
        self.lock = threading.Lock()

    def put_loop(self):
        while (item := self.puts.get()) is not None:
            key, generation = item
            with self.lock:
                self.store[key] = generation

    def cleanup_loop(self):
        while (item := self.cleanups.get()) is not None:
            key, generation = item
            with self.lock:
                if not self.generations or self.store.get(key) == generation:
                    self.store.pop(key, None)


def _run(generations):
    worker = Worker(generations)
    threads = [threading.Thread(target=worker.put_loop), threading.Thread(target=worker.cleanup_loop)]
    for thread in threads:
        thread.start()
    worker.puts.put(("r", 1))
    worker.cleanups.put(("r", 1))
    worker.puts.put(("r", 2))
    worker.puts.put(None)
    worker.cleanups.put(None)
    for thread in threads:
        thread.join()
    assert worker.store.get("r") == 2, "the new generation's data is gone"


def buggy():
    _run(generations=False)


def fixed():
    _run(generations=True)
