"""One process of the throughput benchmark: a connector, the floor, or an adapter, behind a pipe.

A process holds one system and never another: the modules of two targets collide, and a faster allocator state
of one must not help the other. Times are taken in the process that does the work; CPU is all its threads.
The resource tracker is one process beside them all, and :func:`tracker_cpu` reads what it has used.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import logging
import multiprocessing
import os
import pathlib
import sys
import termios
import threading
import time
from collections.abc import Iterator
from multiprocessing import resource_tracker
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
        self.ready = _ReadyMarks()
        self.is_asleep, self.is_put = threading.Event(), threading.Event()
        self.requests: dict[str, Any] = {}
        gc.collect()
        gc.freeze()

    def is_hinted(self) -> bool:
        return self.generation() is not None

    # -- connector -----------------------------------------------------------------------------------

    def transfer(self, steps: str, size: str, keys: list[str]) -> tuple[float, float]:
        """Put or get every key, or do both for each in turn; wall and CPU seconds per chunk."""
        sender, receiver = self.connectors
        payload, puts, gets = self.payloads[size], "put" in steps, "get" in steps
        wall, cpu = time.perf_counter(), time.process_time()
        for key in keys:
            if puts and not sender.put("0", "1", key, payload)[0]:
                raise RuntimeError(f"{key} was not stored")
            if gets and receiver.get("0", "1", key) is None:
                raise RuntimeError(f"{key} was not delivered")
        return (time.perf_counter() - wall) / len(keys), (time.process_time() - cpu) / len(keys)

    # -- adapter -------------------------------------------------------------------------------------

    def start_adapter(self, stage: int) -> None:
        """Start an adapter of this stage; a receiver notes the moment at which a request becomes ready."""
        self.adapter = self.target.create_adapter(stage, max_num_seqs=2 * PARKED, extra=self.extra)
        self.adapter._finished_load_reqs = self.ready
        _mark_sleep(self.adapter, self.is_asleep)
        _mark_put(self.adapter.connector, self.is_put)
        target, torch = self.target, self.torch

        def process(*, multimodal_output: Any = None, is_finished: bool = False, **_: Any) -> Any:
            return target.payload(multimodal_output, left_context_size=0, finished=torch.tensor(is_finished))

        self.target.set_processor(self.adapter, process)

    def register(self, ids: list[str]) -> None:
        for request_id in ids:
            self.requests[request_id] = self.target.create_request(request_id, request_id)
            self.adapter.load_async(self.requests[request_id])

    def save(self, request_id: str) -> int:
        """Hand in the first chunk, wait until it is put; returns the moment before, in ns (monotonic).

        The wait leaves the GIL to the save thread.
        """
        request = self.target.create_request(request_id, request_id)
        codes = self.torch.arange(64, dtype=self.torch.int64)
        self.is_put.clear()
        before = time.monotonic_ns()
        self.adapter.save_async(multimodal_output=codes, request=request)
        if not self.is_put.wait(WAIT_S):
            raise TimeoutError(f"{request_id} was not put in {WAIT_S} s")
        return before

    def receive(self, request_id: str) -> Iterator[int]:
        """Register; answers when the receive loop sleeps, and with the moment at which the chunk is ready."""
        self.is_asleep.clear()
        self.ready.is_marked.clear()
        self.register([request_id])
        for event in (self.is_asleep, self.ready.is_marked):
            if not event.wait(WAIT_S):
                raise TimeoutError(f"{request_id} did not become ready in {WAIT_S} s")
            yield self.ready.moment

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
        from omni_verify.audit import sampler, shm

        parts = {f"stage{number}": pid for number, pid in enumerate(pids)}
        cpu = time.process_time()
        for _ in range(times):
            sampler.process_figures(parts)
            sampler.shm_figures(shm.scan())
        return (time.process_time() - cpu) / times

    def stop(self) -> None:
        if self.adapter is not None:
            self.adapter.shutdown()
            # The release leaves its threads running, and torch aborts when the interpreter ends below them.
            self.adapter.recv_thread.join(WAIT_S)
            self.adapter.save_thread.join(WAIT_S)
        for connector in self.connectors:
            connector.close()


class _ReadyMarks(set[str]):
    """The adapter's set of ready ids, which notes when an id was last added."""

    def __init__(self) -> None:
        super().__init__()
        self.moment = 0
        self.is_marked = threading.Event()

    def add(self, request_id: str) -> None:
        super().add(request_id)
        self.moment = time.monotonic_ns()
        self.is_marked.set()


def _mark_sleep(adapter: Any, is_asleep: threading.Event) -> None:
    """Set the event whenever the receive loop goes to sleep while a request is registered.

    With hints it sleeps in the connector, without, as in vllm-omni 0.30.0, in its condition.
    """
    for owner, name in ((adapter.connector, "wait_for_change"), (adapter._recv_cond, "wait")):
        real = getattr(owner, name, None)
        if real is None:
            continue

        def wait(*args: Any, real: Any = real, **named: Any) -> Any:
            if adapter._pending_load_reqs:
                is_asleep.set()
            return real(*args, **named)

        setattr(owner, name, wait)


def _mark_put(connector: Any, is_put: threading.Event) -> None:
    """Set the event whenever a put has returned."""
    real = connector.put

    def put(*args: Any, **named: Any) -> Any:
        try:
            return real(*args, **named)
        finally:
            is_put.set()

    connector.put = put


def serve(connection: Connection, spec: str, scope: str, folder: str, core: int) -> None:
    """Run jobs until told to stop; an error crosses as text. A job that yields answers several times."""
    os.sched_setaffinity(0, {core})
    sys.path.insert(0, folder)
    logging.disable(logging.ERROR)
    worker = Worker(spec, scope)
    connection.send((True, os.getpid()))
    while True:
        job, arguments = connection.recv()
        try:
            result = getattr(worker, job)(*arguments)
            for answer in result if isinstance(result, Iterator) else [result]:
                connection.send((True, answer))
        except Exception as error:
            connection.send((False, f"{job}: {type(error).__name__}: {error}"))
        if job == "stop":
            return


class Process:
    """A worker as its parent sees it.

    Args:
        core: the core that it runs on; the same for the same part in every column, as cores are not alike.
    """

    def __init__(self, spec: str, scope: str, folder: str, core: int) -> None:
        context = multiprocessing.get_context("spawn")  # spawned children share one resource tracker
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, spec, scope, folder, core), daemon=True)
        self._process.start()
        theirs.close()
        self.pid: int = self.answer()

    def __call__(self, job: str, *arguments: Any) -> Any:
        self.post(job, *arguments)
        return self.answer()

    def post(self, job: str, *arguments: Any) -> None:
        """Have a job run without waiting for its answer."""
        self._connection.send((job, arguments))

    def answer(self) -> Any:
        """Wait for the next answer."""
        if not self._connection.poll(4 * WAIT_S):
            raise TimeoutError(f"process {self._process.pid} did not answer in {4 * WAIT_S} s")
        ok, value = self._connection.recv()
        if not ok:
            raise RuntimeError(value)
        return value

    def stop(self) -> None:
        with contextlib.suppress(Exception):
            self("stop")
        self._process.join(WAIT_S)


def tracker_cpu() -> int:
    """Return the CPU ns of the resource tracker, up to the last message that anybody has sent it.

    Whoever sends must have stopped. Then it has done all when its pipe is empty, it sleeps, and its CPU clock
    stands still: it is listed as asleep a moment before it leaves its core.
    """
    tracker: Any = resource_tracker._resource_tracker
    clock = ~tracker._pid << 3 | 2  # clock_getcpuclockid(3), exact to the ns like our own process_time
    unread, used = bytearray(4), -1
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        fcntl.ioctl(tracker._fd, termios.FIONREAD, unread)
        state = pathlib.Path(f"/proc/{tracker._pid}/stat").read_text().rpartition(")")[2].split()[0]
        before, used = used, time.clock_gettime_ns(clock)
        if not any(unread) and state == "S" and used == before:
            return used
        os.sched_yield()
    raise TimeoutError(f"the resource tracker was busy for {WAIT_S} s")
