"""A stage of a scenario: the target's real adapter, driven as its scheduler drives it.

The methods are the verbs of a stage scheduler that owns its adapter: admit, emit, end, tick, abort,
release. They call only the adapter's public surface, so that every release and the reference run
through the same lines. The scheduler itself is minimal: it schedules whatever is ready.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec

from omni_verify.checks.observation import Delivered, Sent
from omni_verify.harness import dye, processors
from omni_verify.harness.turn import Turn, verb

if TYPE_CHECKING:
    from omni_verify.harness.script import Script

__all__ = ["Handle", "RequestQueue", "Stage"]

_MOST_TICKS = 5000
_MOST_VAIN_TICKS = 30
"""Ticks of one `Stage.consume`, and those in a row that run nothing although a request looks ready and
everything that could arrive has arrived."""


class RequestQueue(deque[Any]):
    """The waiting queue, with the three methods of vLLM's that adapters use."""

    def add_request(self, request: Any) -> None:
        """Append a request."""
        self.append(request)

    def prepend_request(self, request: Any) -> None:
        """Put a request in front."""
        self.appendleft(request)

    def prepend_requests(self, requests: Iterable[Any]) -> None:
        """Put requests in front, keeping their order."""
        self.extendleft(reversed(list(requests)))


class Handle(msgspec.Struct, kw_only=True):
    """One request on one stage.

    Attributes:
        label: external id without the run's prefix.
        external, internal: the ids that the target sees.
        request: the target's request object.
        sent, got: the ledger entries.
    """

    label: str
    external: str
    internal: str
    request: Any
    sent: Sent
    got: Delivered
    over: bool = False


class Stage:
    """One stage: an adapter, its queues and its live requests."""

    def __init__(
        self, script: Script, stage_id: int, name: str, *, chunk: int = 0, **adapter_args: Any
    ) -> None:
        self.script, self.stage_id, self.name = script, stage_id, name
        self.turn = Turn(script.runtime, name, enforced=script.explored)
        self.worker_type = adapter_args.get("worker_type", "generation")
        self.waiting, self.running = RequestQueue(), []  # type: RequestQueue, list[Any]
        self.live: dict[str, Any] = {}
        self.handles: list[Handle] = []
        self._statuses: dict[str, Any] = {}
        self.send_failures: dict[str, str] = {}
        self.max_num_seqs = adapter_args.get("max_num_seqs", 16)
        self.relays = False
        """A request goes on after the end of what it receives: the scenario ends it."""
        self.adapter = script.target.create_adapter(stage_id, **adapter_args)
        processor = (
            processors.accumulating(script.target, chunk) if chunk else processors.per_save(script.target)
        )
        script.target.set_processor(self.adapter, processor)
        self.connector = self.adapter.connector
        self._process_args = _accepted(self.adapter.process_pending_chunks)
        self._restore_args = _accepted(self.adapter.restore_queues)

    # -- producer verbs -----------------------------------------------------------------------

    @verb
    def admit(
        self,
        label: str,
        *,
        internal: str = "",
        generation: int = 0,
        resumable: bool = False,
        queue: bool = True,
    ) -> Handle:
        """Create a request under an external id and make it live on this stage.

        Args:
            label: external id without the run's prefix.
            internal: internal id; on stage 0 it differs from the external id, later stages share it.
            generation: how-manieth request under that id; counted when 0.
            resumable: a session of several segments.
            queue: put it into the waiting queue (a stage that receives).
        """
        external = self.script.external(label)
        self.script.number(label)
        generation = generation or 1 + sum(h.label == label for h in self.handles)
        internal = internal or (f"{external}-{generation}x" if self.stage_id == 0 else external)
        request = self.script.target.create_request(internal, external, resumable=resumable)
        handle = Handle(
            label=label,
            external=external,
            internal=internal,
            request=request,
            sent=Sent(label=label, stage=self.name, generation=generation),
            got=Delivered(label=label, stage=self.name, generation=generation),
        )
        self.handles.append(handle)
        self.live[internal] = request
        if queue and self.stage_id > 0:
            self.waiting.add_request(request)
        return handle

    def handle(self, label: str | Handle) -> Handle:
        """Return the newest request under an external id."""
        if isinstance(label, Handle):
            return label
        return next(h for h in reversed(self.handles) if h.label == label)

    @verb
    def emit(self, label: str | Handle, frames: int = 1, *, segment_end: bool = False) -> None:
        """Hand `frames` dyed frames to the adapter, as after one model step."""
        handle = self.handle(label)
        handle.sent.frames += frames
        handle.request.num_computed_tokens += max(1, frames)
        output = self._output(handle, handle.sent.frames - frames, frames)
        kwargs = {"is_segment_finished": True} if segment_end else {}
        self.adapter.save_async(output, handle.request, **kwargs)
        self.collect()

    def hand_over(
        self, label: str | Handle, first: int, frames: int, *, computed: int, generation: int = 0
    ) -> None:
        """Save frames ``first .. first+frames-1`` outside the ledger: calls that the adapter must sort out.

        Args:
            label: external id or handle.
            first, frames: which frames of the request's stream.
            computed: committed tokens that the request shows; below an earlier value after a preemption.
            generation: whose dye the frames bear; the request's own when 0.
        """
        handle = self.handle(label)
        handle.request.num_computed_tokens = computed
        output = self._output(handle, first, frames, generation)
        self.adapter.save_async(output, handle.request)
        self.collect()

    @verb
    def end(self, label: str | Handle, frames: int = 0) -> None:
        """End a request normally: its terminal, with the last `frames`, as the AR scheduler does it."""
        handle = self.handle(label)
        handle.sent.frames += frames
        handle.sent.ended = True
        handle.request.num_computed_tokens += max(1, frames)
        handle.request.status = self._status("FINISHED_STOPPED")
        if self.stage_id > 0:
            self.adapter.cleanup_receiver(handle.internal)
        output = self._output(handle, handle.sent.frames - frames, frames) if frames else None
        self.adapter.save_async(output, handle.request)
        self._forget(handle)
        self.collect()

    @verb
    def end_parked(self, label: str | Handle) -> None:
        """End a resumable session that is parked: forced terminal, then the finish verb (vllm-omni#6889).

        Releases without `force_request_finished` get the terminal the only way they have.
        """
        handle = self.handle(label)
        handle.sent.ended = True
        request = handle.request
        request.resumable = False
        request._omni_segment_generation = int(getattr(request, "_omni_segment_generation", 0) or 0) + 1
        if self.script.target.capabilities.forced_terminal:
            self.adapter.save_async(None, request, force_request_finished=True)
            self._finish([handle], "FINISHED_STOPPED")
        else:
            request.status = self._status("FINISHED_STOPPED")
            self.adapter.save_async(None, request)
            self._finish([handle], "FINISHED_STOPPED")

    @verb
    def abort(self, *labels: str | Handle, known: bool = True) -> None:
        """Abort requests with the scheduler's verb.

        Args:
            labels: external ids or handles.
            known: whether the scheduler still holds the request when the adapter is told.
        """
        handles = [self.handle(label) for label in labels]
        for handle in handles:
            handle.sent.aborted = handle.got.aborted = True
        self._finish(handles, "FINISHED_ABORTED", known=known)

    @verb
    def release(self, label: str | Handle) -> None:
        """Say that all stages are done with a request, where the target can hear it (I50).

        Stage 0 is told the external id: its internal one is known to its own engine alone.
        """
        handle = self.handle(label)
        if self.script.target.capabilities.release:
            self.adapter.release_shm_resources(handle.internal if self.stage_id else handle.external)

    @verb
    def collect(self) -> None:
        """Drain the failures that the adapter reports, as the scheduler does each tick."""
        if not self.script.target.capabilities.send_failures:
            return
        for internal, reason in self.adapter.collect_failed_send_request_ids().items():
            self.send_failures[internal] = reason
            for handle in self.handles:
                if handle.internal == internal and not handle.sent.refused:
                    handle.sent.refused = reason

    # -- consumer verbs -----------------------------------------------------------------------

    @verb
    def tick(self) -> int:
        """Run one scheduler tick; return how many requests made progress."""
        reach = self.script.runtime.reach
        reach("tick.enter", self.name)
        progress = 0
        try:
            self.adapter.process_pending_chunks(
                self.waiting, self.running, **self._live_kwarg(self._process_args)
            )
            progress += self._fail_received()
            try:
                progress += self._schedule()
            finally:
                self.adapter.restore_queues(
                    self.waiting, self.running, **self._live_kwarg(self._restore_args)
                )
            progress += self._finish_drained()
        finally:
            reach("tick.exit", self.name)
        self.collect()
        return progress

    def consume(self, *labels: str | Handle, frames: int = 0, settle: bool = True) -> None:
        """Tick until the requests are over, have `frames` frames, or nothing more can arrive.

        Args:
            labels: which requests; all live ones when empty.
            frames: stop as soon as each has that many.
            settle: stop when every producer is drained and further polls found nothing; such a
                request is left `waiting`.

        A target that runs one chunk for ever, or shows a request that can never run, ends the call too.
        """
        handles = [self.handle(label) for label in labels] or [h for h in self.handles if not h.over]
        vain, found = 0, False
        for _ in range(_MOST_TICKS):
            progress = self.tick()
            open_ = [
                h
                for h in handles
                if not h.over
                and not h.got.error
                and not (frames and len(h.got.frames) >= frames)
                and not (self.relays and h.got.finishes)
            ]
            if not open_:
                return
            if progress:
                vain, found = 0, False
                continue
            # A request that looked ready and did not run: another may be in its way, or it never will.
            vain += found and self.script.wait_pass(self)
            mark = len(self.script.runtime.trace)
            found = (
                self.script.wait_arrival(self, open_, mark) if settle else self.script.wait_ready(self, open_)
            )
            for handle in open_:
                handle.got.waiting = not found or vain > _MOST_VAIN_TICKS
            if not found or vain > _MOST_VAIN_TICKS:
                return

    def ready(self, handle: Handle) -> bool:
        """Tell whether a tick would make progress on a request (read only)."""
        adapter, internal = self.adapter, handle.internal
        return (
            internal in adapter._finished_load_reqs
            or internal in adapter.requests_with_ready_chunks
            or internal in getattr(adapter, "_receive_failures", ())
            or (handle.request.status != self._status("WAITING_FOR_CHUNK") and internal in self.live)
        )

    def _status(self, name: str) -> Any:
        """The target's request status of that name; looked up once, it is read at every tick."""
        if name not in self._statuses:
            self._statuses[name] = self.script.target.status(name)
        return self._statuses[name]

    # -- internals ----------------------------------------------------------------------------

    def _output(self, handle: Handle, first: int, frames: int, generation: int = 0) -> dict[str, Any]:
        import torch

        number = self.script.number(handle.label)
        rows = dye.paint(number, generation or handle.sent.generation, first, frames)
        return {"codes.audio": torch.tensor(rows, dtype=torch.int64)}

    def _live_kwarg(self, accepted: set[str]) -> dict[str, Any]:
        return {"scheduler_requests": self.live} if "scheduler_requests" in accepted else {}

    def _finish(self, handles: list[Handle], status: str, *, known: bool = True) -> None:
        ids = {h.internal for h in handles}
        state = self._status(status)
        if not known:
            for handle in handles:
                self._forget(handle)
        self.adapter.finish_requests(ids, state, self.live)
        for handle in handles:
            handle.request.status = state
            self._forget(handle)
        self.collect()

    def _forget(self, handle: Handle) -> None:
        handle.over = True
        if self.live.get(handle.internal) is handle.request:
            del self.live[handle.internal]
        for queue in (self.waiting, self.running):
            while any(r is handle.request for r in queue):
                queue.remove(handle.request)

    def _fail_received(self) -> int:
        if not self.script.target.capabilities.receive_failures:
            return 0
        failures = self.adapter.collect_failed_receive_request_ids()
        count = 0
        for handle in self.handles:
            if handle.internal in failures and not handle.over:
                handle.got.error = failures[handle.internal] or "receive failure"
                self._finish([handle], "FINISHED_ERROR")
                count += 1
        return count

    def _schedule(self) -> int:
        adapter = self.adapter
        fresh: list[Any] = []
        for request in list(self.waiting):
            if (
                request.request_id in adapter.requests_with_ready_chunks
                and len(self.running) < self.max_num_seqs
            ):
                self.waiting.remove(request)
                request.status = self._status("RUNNING")
                self.running.append(request)
                fresh.append(SimpleNamespace(req_id=request.request_id))
        new = {r.req_id for r in fresh}
        ready = adapter.requests_with_ready_chunks
        cached = [r.request_id for r in self.running if r.request_id in ready and r.request_id not in new]
        chosen = [r for r in self.running if r.request_id in new or r.request_id in cached]
        payloads = {r.request_id: _codes_of(r, self.worker_type) for r in chosen}
        output = SimpleNamespace(
            scheduled_new_reqs=fresh,
            scheduled_cached_reqs=SimpleNamespace(req_ids=cached, additional_information={}),
        )
        adapter.postprocess_scheduler_output(output, self.live)
        for request in chosen:
            self._run_model(request, payloads[request.request_id])
        return len(chosen)

    def _run_model(self, request: Any, codes: list[int]) -> None:
        handle = next(h for h in self.handles if h.request is request)
        frames, broken = dye.read(codes)
        handle.got.frames += [(self.script.label_of(f.stream), f.generation, f.index) for f in frames]
        handle.got.broken += broken
        if not self.relays:
            request.num_computed_tokens = len(request.prompt_token_ids or [])
        self.script.runtime.reach("deliver", handle.label, frames=len(frames), stage=self.name)

    def _finish_drained(self) -> int:
        adapter, count = self.adapter, 0
        for handle in [h for h in self.handles if not h.over]:
            request = handle.request
            parked = (
                request.request_id in adapter.requests_with_ready_chunks
                or request.request_id in adapter._finished_load_reqs
            )
            if parked or request.status == self._status("WAITING_FOR_CHUNK"):
                continue
            if request.request_id in adapter.segment_finished_requests:
                handle.got.boundaries += 1
                adapter.segment_finished_requests.discard(request.request_id)
                count += 1
            if request.request_id in adapter.upstream_exhausted_requests:
                if self.relays:
                    count += not handle.got.finishes
                    handle.got.finishes = 1
                    continue
                handle.got.finishes += 1
                request.status = self._status("FINISHED_STOPPED")
                if self.worker_type == "ar":
                    adapter.cleanup_receiver(handle.internal)
                else:
                    adapter.cleanup(handle.internal, handle.external)
                self._forget(handle)
                count += 1
        return count


def _codes_of(request: Any, worker_type: str) -> list[int]:
    """Read what a model would execute: prompt ids of a generation stage, the payload of an AR stage."""
    if worker_type == "ar":
        codes = ((getattr(request, "additional_information", None) or {}).get("codes") or {}).get("audio")
        return [] if codes is None else [int(c) for c in codes]
    prompt = list(request.prompt_token_ids or [])
    return [] if prompt == [0] else prompt


def _accepted(method: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(inspect.unwrap(method)).parameters)
