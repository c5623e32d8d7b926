"""The scheduler of a stage: its queues and live requests, and what one tick does with them.

It is minimal: it schedules whatever is ready.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from omni_verify.harness import dye
from omni_verify.harness.handle import Handle
from omni_verify.harness.request_queue import RequestQueue
from omni_verify.harness.turn import Turn, verb

if TYPE_CHECKING:
    from omni_verify.harness.script import Script

__all__ = ["Scheduler"]


class Scheduler:
    """Owns an adapter and calls it in every tick as an engine's scheduler does.

    Attributes:
        turn: its verbs come from one thread; see `Turn`.
        waiting, running: the queues that the adapter parks requests out of.
        live: request objects by internal id.
        handles: every request that was admitted, the forgotten ones included.
        send_failures: reasons by internal id, as the adapter reported them.
        relays: a request goes on after the end of what it receives: the scenario ends it.
    """

    def __init__(
        self,
        script: Script,
        name: str,
        adapter: Any,
        *,
        worker_type: str = "generation",
        max_num_seqs: int = 16,
    ) -> None:
        self.script, self.name, self.adapter = script, name, adapter
        self.worker_type, self.max_num_seqs = worker_type, max_num_seqs
        self.turn = Turn(script.runtime, name, enforced=script.explored)
        self.waiting, self.running = RequestQueue(), []  # type: RequestQueue, list[Any]
        self.live: dict[str, Any] = {}
        self.handles: list[Handle] = []
        self.send_failures: dict[str, str] = {}
        self.relays = False
        self._interlude: Callable[[], object] | None = None
        self._statuses: dict[str, Any] = {}
        self._process_args = _accepted(adapter.process_pending_chunks)
        self._restore_args = _accepted(adapter.restore_queues)

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
                self._play_interlude()
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

    def before_scheduling(self, act: Callable[[], object]) -> None:
        """Call `act` once, in the next tick, when requests without a chunk are parked.

        The queues are restored after it whatever it does, an exception included, as in an engine.
        """
        self._interlude = act

    def ready(self, handle: Handle) -> bool:
        """Tell whether a tick would make progress on a request (read only)."""
        adapter, internal = self.adapter, handle.internal
        return (
            internal in adapter._finished_load_reqs
            or internal in adapter.requests_with_ready_chunks
            or internal in getattr(adapter, "_receive_failures", ())
            or (handle.request.status != self.status("WAITING_FOR_CHUNK") and internal in self.live)
        )

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

    @verb
    def finish(self, handles: list[Handle], status: str) -> None:
        """End requests with the adapter's finish verb, and forget them.

        Args:
            handles: the requests.
            status: name of the finished status that they get.
        """
        ids = {h.internal for h in handles}
        state = self.status(status)
        self.adapter.finish_requests(ids, state, self.live)
        for handle in handles:
            handle.request.status = state
            self.forget(handle)
        self.collect()

    def forget(self, handle: Handle) -> None:
        """Free a request without telling the adapter: it is neither live nor in a queue any more."""
        handle.over = True
        if self.live.get(handle.internal) is handle.request:
            del self.live[handle.internal]
        for queue in (self.waiting, self.running):
            while any(r is handle.request for r in queue):
                queue.remove(handle.request)

    def status(self, name: str) -> Any:
        """Return the target's request status of that name; looked up once, it is read at every tick."""
        if name not in self._statuses:
            self._statuses[name] = self.script.target.status(name)
        return self._statuses[name]

    # -- parts of a tick -----------------------------------------------------------------------

    def _play_interlude(self) -> None:
        act, self._interlude = self._interlude, None
        if act is not None:
            act()

    def _live_kwarg(self, accepted: set[str]) -> dict[str, Any]:
        return {"scheduler_requests": self.live} if "scheduler_requests" in accepted else {}

    def _fail_received(self) -> int:
        if not self.script.target.capabilities.receive_failures:
            return 0
        failures = self.adapter.collect_failed_receive_request_ids()
        count = 0
        for handle in self.handles:
            if handle.internal in failures and not handle.over:
                handle.got.error = failures[handle.internal] or "receive failure"
                self.finish([handle], "FINISHED_ERROR")
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
                request.status = self.status("RUNNING")
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
            if parked or request.status == self.status("WAITING_FOR_CHUNK"):
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
                request.status = self.status("FINISHED_STOPPED")
                if self.worker_type == "ar":
                    adapter.cleanup_receiver(handle.internal)
                else:
                    adapter.cleanup(handle.internal, handle.external)
                self.forget(handle)
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
