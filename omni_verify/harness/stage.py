"""A stage of a scenario: the target's real adapter, driven as its scheduler drives it.

The methods are the verbs of a stage scheduler that owns its adapter: admit, emit, end, tick, abort,
release. They call only the adapter's public surface, so that every release and the reference run
through the same lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omni_verify.checks.observation import Delivered, Sent
from omni_verify.harness import dye, processors
from omni_verify.harness.handle import Handle
from omni_verify.harness.scheduler import Scheduler
from omni_verify.harness.turn import verb

if TYPE_CHECKING:
    from omni_verify.harness.script import Script

__all__ = ["Stage"]

_MOST_TICKS = 5000
_MOST_VAIN_TICKS = 30
"""Ticks of one `Stage.consume`, and those in a row that run nothing although a request looks ready and
everything that could arrive has arrived."""


class Stage(Scheduler):
    """One stage: a scheduler with an adapter of its own, and the verbs that a scenario has for it.

    Args:
        script: of the run.
        stage_id, chunk, adapter_args: see `Script.stage`.
        name: label in traces.
    """

    def __init__(
        self, script: Script, stage_id: int, name: str, *, chunk: int = 0, **adapter_args: Any
    ) -> None:
        super().__init__(
            script,
            name,
            script.target.create_adapter(stage_id, **adapter_args),
            worker_type=adapter_args.get("worker_type", "generation"),
            max_num_seqs=adapter_args.get("max_num_seqs", 16),
        )
        self.stage_id = stage_id
        processor = (
            processors.accumulating(script.target, chunk) if chunk else processors.per_save(script.target)
        )
        script.target.set_processor(self.adapter, processor)
        self.connector = self.adapter.connector

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
        handle.request.status = self.status("FINISHED_STOPPED")
        if self.stage_id > 0:
            self.adapter.cleanup_receiver(handle.internal)
        output = self._output(handle, handle.sent.frames - frames, frames) if frames else None
        self.adapter.save_async(output, handle.request)
        self.forget(handle)
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
            self.finish([handle], "FINISHED_STOPPED")
        else:
            request.status = self.status("FINISHED_STOPPED")
            self.adapter.save_async(None, request)
            self.finish([handle], "FINISHED_STOPPED")

    @verb
    def abort(self, *labels: str | Handle) -> None:
        """Abort requests with the scheduler's verb.

        Args:
            labels: external ids or handles.
        """
        handles = [self.handle(label) for label in labels]
        for handle in handles:
            handle.sent.aborted = handle.got.aborted = True
        self.finish(handles, "FINISHED_ABORTED")

    @verb
    def release(self, label: str | Handle) -> None:
        """Say that all stages are done with a request, where the target can hear it (I50).

        Stage 0 is told the external id: its internal one is known to its own engine alone.
        """
        handle = self.handle(label)
        if self.script.target.capabilities.release:
            self.adapter.release_shm_resources(handle.internal if self.stage_id else handle.external)

    # -- consumer verbs -----------------------------------------------------------------------

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

    def _output(self, handle: Handle, first: int, frames: int, generation: int = 0) -> dict[str, Any]:
        import torch

        number = self.script.number(handle.label)
        rows = dye.paint(number, generation or handle.sent.generation, first, frames)
        return {"codes.audio": torch.tensor(rows, dtype=torch.int64)}
