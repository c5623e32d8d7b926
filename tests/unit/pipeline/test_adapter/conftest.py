"""Two adapters over the real shared-memory connector, and gates that force one order of their steps."""

from __future__ import annotations

import functools
import itertools
import os
import threading
import time
import uuid
from collections import deque
from types import SimpleNamespace

import pytest
import torch

from omni_verify.contracts.payload_schema import CodesStruct, MetaStruct, OmniPayloadStruct
from omni_verify.pipeline.request import Request, RequestStatus
from omni_verify.pipeline.transfer_adapter import OmniChunkTransferAdapter

torch.set_num_threads(1)
_STEPS = itertools.count(1)


def wait_until(condition, what="condition", timeout=20.0):
    """Wait for a condition that must come; the time-out is a failure, never a verdict."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"never came: {what}"
        time.sleep(0.002)


class Gate:
    """Hold the first call of an instance's method before or after the real call."""

    def __init__(self, owner, name, *, after=False, when=lambda *a, **k: True, error=None, result=None):
        self.entered, self.released = threading.Event(), threading.Event()
        self._fired = False
        real = getattr(owner, name)

        @functools.wraps(real)
        def gated(*args, **kwargs):
            if self._fired or not when(*args, **kwargs):
                return real(*args, **kwargs)
            self._fired = True
            value = real(*args, **kwargs) if after else None
            self.entered.set()
            assert self.released.wait(20), f"{name} was never released"
            if error is not None:
                raise error
            if result is not None:
                return result
            return value if after else real(*args, **kwargs)

        setattr(owner, name, gated)

    def wait(self):
        assert self.entered.wait(20), "the gated call never came"

    def release(self):
        self.released.set()


class CountingDeque(deque):
    appended = 0

    def append(self, item):
        self.appended += 1
        super().append(item)


class Queue(list):
    """A waiting queue with vLLM's verbs."""

    def add_request(self, request):
        self.append(request)

    def prepend_requests(self, requests):
        self[:0] = requests


def codes_processor(transfer_manager, multimodal_output, request, is_finished=False):
    """Send one step's codes as one chunk; ``boom`` raises."""
    if multimodal_output is None:
        return None
    if multimodal_output.get("boom"):
        raise RuntimeError("boom in the processor")
    return OmniPayloadStruct(
        codes=CodesStruct(audio=torch.tensor(multimodal_output["codes"], dtype=torch.int64)),
        meta=MetaStruct(left_context_size=0),
    )


class Stage:
    """One adapter with its queues; the test's thread is S."""

    def __init__(
        self, stage_id, scope, *, worker_type="generation", connector="SharedMemoryConnector", **config
    ):
        model = SimpleNamespace(
            stage_id=stage_id,
            worker_type=worker_type,
            async_chunk=True,
            stage_connector_config={"name": connector, "extra": {"wakeup_scope": scope}},
            **config,
        )
        self.adapter = OmniChunkTransferAdapter(
            SimpleNamespace(model_config=model, scheduler_config=SimpleNamespace(max_num_seqs=8))
        )
        self.connector = self.adapter.connector
        self.adapter.custom_process_next_stage_input_func = codes_processor
        self.adapter._pending_save_reqs = CountingDeque()
        self.done = 0
        real = self.adapter._send_single_request

        def counted(task):
            try:
                real(task)
            finally:
                self.done += 1

        self.adapter._send_single_request = counted
        self.waiting, self.running, self.live = Queue(), [], {}

    def save(self, request, codes=None, *, last=False, **arguments):
        request.num_computed_tokens = next(_STEPS)
        if last:
            request.status = RequestStatus.FINISHED_STOPPED
        output = codes if codes is None or isinstance(codes, dict) else {"codes": codes}
        self.adapter.save_async(output, request, **arguments)

    def drain(self):
        queue = self.adapter._pending_save_reqs
        wait_until(lambda: self.done >= queue.appended, "drained save queue")

    def admit(self, request):
        self.live[request.request_id] = request
        self.waiting.add_request(request)

    def abort(self, request, *, known=True, status=RequestStatus.FINISHED_ABORTED):
        requests = {request.request_id: request} if known else {}
        self.adapter.finish_requests(request.request_id, status, requests)
        self.live.pop(request.request_id, None)
        for queue in (self.waiting, self.running):
            if request in queue:
                queue.remove(request)
        request.status = status

    def tick(self):
        """Run one scheduler tick; return the requests that had a chunk, as (id, prompt)."""
        self.adapter.process_pending_chunks(self.waiting, self.running, scheduler_requests=self.live)
        ready = [
            r
            for r in (*self.waiting, *self.running)
            if r.request_id in self.adapter.requests_with_ready_chunks
        ]
        served = [(r.request_id, list(r.prompt_token_ids)) for r in ready]
        new = [SimpleNamespace(req_id=r.request_id) for r in ready]
        self.adapter.postprocess_scheduler_output(
            SimpleNamespace(scheduled_new_reqs=new, scheduled_cached_reqs=None), self.live
        )
        self.adapter.restore_queues(self.waiting, self.running, self.live)
        return served

    def receive(self, request, *, chunks=None):
        """Tick until the stream ends, fails or has given ``chunks`` chunks: (prompts, failure or None)."""
        prompts, failure = [], None
        if request.request_id not in self.live:
            self.admit(request)

        def over():
            nonlocal failure
            prompts.extend(prompt for request_id, prompt in self.tick() if request_id == request.request_id)
            failure = failure or self.adapter.collect_failed_receive_request_ids().get(request.request_id)
            enough = chunks is not None and len(prompts) >= chunks
            ended = request.request_id in self.adapter.upstream_exhausted_requests
            pending = request.status == RequestStatus.WAITING_FOR_CHUNK
            return failure or enough or (ended and not pending)

        wait_until(over, "end of the stream")
        return prompts, failure

    def finish(self, request):
        self.adapter.cleanup(request.request_id, request.external_req_id)
        self.live.pop(request.request_id, None)
        self.waiting[:] = [r for r in self.waiting if r is not request]


class Edge:
    """Producer (stage 1) and consumer (stage 2) with ids of their own."""

    def __init__(self):
        self.prefix = f"ova{uuid.uuid4().hex[:10]}"
        self.stages = []
        self.producer = self.stage(1)
        self.consumer = self.stage(2)

    def stage(self, stage_id, **config):
        stage = Stage(stage_id, self.prefix, **config)
        self.stages.append(stage)
        return stage

    def request(self, name="R", internal=None, **fields):
        ext = f"{self.prefix}{name}"
        return Request(f"{self.prefix}{internal}" if internal else ext, ext, **fields)

    def files(self):
        return sorted(name for name in os.listdir("/dev/shm") if self.prefix in name)

    def residue(self, *stages):
        """Names of adapter and connector containers that still know an id of this edge.

        The failure records are mail for the scheduler, not state.
        """
        found = {}
        for stage in stages or (self.producer, self.consumer):
            for owner in (stage.adapter, stage.connector):
                for name, value in vars(owner).items():
                    if name.endswith("_failures"):
                        continue
                    if isinstance(value, dict | set | list | deque) and self.prefix in repr(
                        [getattr(item, "request_id", item) for item in tuple(value)]
                    ):
                        found[f"{type(owner).__name__}.{name}"] = value
        return found

    def wait_clean(self, *stages):
        wait_until(lambda: not self.files() and not self.residue(*stages), f"no residue of {self.prefix}")

    def close(self):
        for stage in self.stages:
            stage.adapter.shutdown()
        wait_until(lambda: not self.files(), "no files after shutdown")


@pytest.fixture
def edge():
    made = Edge()
    yield made
    made.close()


@pytest.fixture
def gate():
    """Make gates that are released at the end whatever happens."""
    made = []

    def make(*args, **kwargs):
        made.append(Gate(*args, **kwargs))
        return made[-1]

    yield make
    for one in made:
        one.release()


@pytest.fixture
def until():
    return wait_until
