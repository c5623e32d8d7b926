"""One process of the throughput benchmark: a connector, the floor, or an adapter, behind a pipe.

A process holds one system and never another: the modules of two targets collide, and a faster allocator state
of one must not help the other. Times are taken in the process that does the work; CPU is all its threads.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import multiprocessing
import os
import statistics
import sys
import time
from multiprocessing.connection import Connection
from typing import Any

FLOOR = "floor"
SHM_ROOT = "/dev/shm"
SIZES = {"64 int64": (64,), "50x16 int64": (50, 16), "1 MiB": (1 << 17,), "16 MiB": (1 << 21,)}
WAIT_S = 60
PARKED = 64


class FloorConnector:
    """What no connector can do without: serialise, write a file, read it, remove it, deserialise.

    No lock, no journal, no hint, no protection against anything.
    """

    def __init__(self, target: Any) -> None:
        self._target = target

    def put(self, from_stage: str, to_stage: str, put_key: str, data: Any) -> tuple[bool, int, None]:
        raw = self._target.serialize(data)
        fd = os.open(f"{SHM_ROOT}/{put_key}", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        done = os.write(fd, raw)
        os.close(fd)
        return done == len(raw), len(raw), None

    def get(self, from_stage: str, to_stage: str, get_key: str) -> tuple[Any, int]:
        path = f"{SHM_ROOT}/{get_key}"
        fd = os.open(path, os.O_RDONLY)
        raw = os.read(fd, os.fstat(fd).st_size)
        os.close(fd)
        os.unlink(path)
        return self._target.deserialize(raw), len(raw)

    def close(self) -> None:
        """Hold nothing."""


class Worker:
    """The jobs of one process; each returns what the parent prints."""

    def __init__(self, spec: str, scope: str) -> None:
        import torch

        from omni_verify import targets

        self.torch = torch
        self.target = targets.resolve("reference" if spec == FLOOR else spec)
        self.target.prepare()
        self.target.load()
        self.extra = {"wakeup_scope": scope}
        self.connectors = [
            FloorConnector(self.target) if spec == FLOOR else self.target.create_connector(stage, self.extra)
            for stage in (0, 1)
        ]
        # A receiver that waits for hints, as every stage has one: else a put would be spared the poke.
        self.generation = getattr(self.connectors[1], "get_wakeup_generation", lambda: None)
        self.payloads = {
            name: self.target.payload(
                torch.arange(torch.Size(shape).numel(), dtype=torch.int64).remainder(2048).reshape(shape),
                left_context_size=3,
                finished=torch.tensor(False),
            )
            for name, shape in SIZES.items()
        }
        self.adapter: Any = None
        self.ready: dict[str, int] = {}
        self.requests: dict[str, Any] = {}
        gc.collect()
        gc.freeze()

    def is_hinted(self) -> bool:
        return self.generation() is not None

    # -- connector -----------------------------------------------------------------------------------

    def both(self, size: str, keys: list[str]) -> tuple[float, float]:
        """Put and get each key in turn; wall and CPU seconds per chunk."""
        sender, receiver = self.connectors
        payload = self.payloads[size]
        wall, cpu = time.perf_counter(), time.process_time()
        for key in keys:
            sender.put("0", "1", key, payload)
            if receiver.get("0", "1", key) is None:
                raise RuntimeError(f"{key} was not delivered")
        return (time.perf_counter() - wall) / len(keys), (time.process_time() - cpu) / len(keys)

    def put(self, size: str, keys: list[str]) -> tuple[float, float]:
        """Put every key; wall and CPU seconds per chunk."""
        sender, payload = self.connectors[0], self.payloads[size]
        wall, cpu = time.perf_counter(), time.process_time()
        for key in keys:
            if not sender.put("0", "1", key, payload)[0]:
                raise RuntimeError(f"{key} was not stored")
        return (time.perf_counter() - wall) / len(keys), (time.process_time() - cpu) / len(keys)

    def get(self, size: str, keys: list[str]) -> tuple[float, float]:
        """Get every key; wall and CPU seconds per chunk."""
        receiver = self.connectors[1]
        wall, cpu = time.perf_counter(), time.process_time()
        for key in keys:
            if receiver.get("0", "1", key) is None:
                raise RuntimeError(f"{key} was not delivered")
        return (time.perf_counter() - wall) / len(keys), (time.process_time() - cpu) / len(keys)

    # -- adapter -------------------------------------------------------------------------------------

    def start_adapter(self, stage: int) -> None:
        """Start an adapter of this stage; a receiver notes the moment at which a request becomes ready."""
        self.adapter = self.target.create_adapter(stage, max_num_seqs=2 * PARKED, extra=self.extra)
        self.adapter._finished_load_reqs = _ReadyMarks(self.ready)
        target, torch = self.target, self.torch

        def process(*, multimodal_output: Any = None, is_finished: bool = False, **_: Any) -> Any:
            return target.payload(multimodal_output, left_context_size=0, finished=torch.tensor(is_finished))

        self.target.set_processor(self.adapter, process)

    def register(self, ids: list[str]) -> None:
        for request_id in ids:
            self.requests[request_id] = self.target.create_request(request_id, request_id)
            self.adapter.load_async(self.requests[request_id])

    def save(self, request_id: str) -> int:
        """Hand in the first chunk; returns the moment before, in ns of the system's monotonic clock."""
        request = self.target.create_request(request_id, request_id)
        codes = self.torch.arange(64, dtype=self.torch.int64)
        before = time.monotonic_ns()
        self.adapter.save_async(multimodal_output=codes, request=request)
        return before

    def wait_ready(self, request_id: str) -> int:
        """Return the moment at which the request became ready, same clock."""
        deadline = time.monotonic() + WAIT_S
        while request_id not in self.ready:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{request_id} did not become ready in {WAIT_S} s")
            time.sleep(0.002)
        return self.ready[request_id]

    def forget(self, ids: list[str]) -> None:
        for request_id in ids:
            self.adapter.cleanup(request_id, request_id)
            self.requests.pop(request_id, None)

    def idle(self, seconds: float) -> float:
        """Return the CPU seconds per second of this process while nothing arrives."""
        wall, cpu = time.perf_counter(), time.process_time()
        time.sleep(seconds)
        return (time.process_time() - cpu) / (time.perf_counter() - wall)

    def sample(self, pids: list[int], times: int) -> float:
        """Return the CPU seconds of one look at these processes and at the shared-memory directory."""
        from omni_verify import audit

        cpu = time.process_time()
        for _ in range(times):
            for pid in pids:
                audit.census(pid)
            audit.scan()
        return (time.process_time() - cpu) / times

    def stop(self) -> None:
        if self.adapter is not None:
            self.adapter.shutdown()
        for connector in self.connectors:
            connector.close()


class _ReadyMarks(set[str]):
    """The adapter's set of ready ids, which notes when an id is first added."""

    def __init__(self, moments: dict[str, int]) -> None:
        super().__init__()
        self._moments = moments

    def add(self, request_id: str) -> None:
        super().add(request_id)
        self._moments.setdefault(request_id, time.monotonic_ns())


def serve(connection: Connection, spec: str, scope: str, folder: str) -> None:
    """Run jobs until told to stop; an error crosses as text."""
    sys.path.insert(0, folder)
    logging.disable(logging.ERROR)
    worker = Worker(spec, scope)
    connection.send((True, os.getpid()))
    while True:
        job, arguments = connection.recv()
        try:
            connection.send((True, getattr(worker, job)(*arguments)))
        except Exception as error:
            connection.send((False, f"{job}: {type(error).__name__}: {error}"))
        if job == "stop":
            return


class Process:
    """A worker as its parent sees it."""

    def __init__(self, spec: str, scope: str, folder: str) -> None:
        context = multiprocessing.get_context("spawn")  # spawned children share one resource tracker
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, spec, scope, folder), daemon=True)
        self._process.start()
        theirs.close()
        self.pid: int = self._receive("start")

    def __call__(self, job: str, *arguments: Any) -> Any:
        self._connection.send((job, arguments))
        return self._receive(job)

    def _receive(self, job: str) -> Any:
        if not self._connection.poll(4 * WAIT_S):
            raise TimeoutError(f"{job} did not answer in {4 * WAIT_S} s")
        ok, value = self._connection.recv()
        if not ok:
            raise RuntimeError(value)
        return value

    def stop(self) -> None:
        with contextlib.suppress(Exception):
            self("stop")
        self._process.join(WAIT_S)


def middle(values: list[float]) -> float:
    return statistics.median(values)
