"""The interface between a stage's scheduler and the engine that runs an AR model.

It asks for what a serving engine can give: tokens per request and step. Rows that travel to the next
stage are derived from tokens by our own modules, so an engine that only yields token ids (vLLM) fits: it
buffers what its own scheduler produced and releases one step per call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from omni_verify.pipeline.models.exact import mix

__all__ = ["ArEngine", "ArRequest", "ArStepOutput", "SamplingLike", "request_dye"]


class SamplingLike(Protocol):
    """What the engines read of a request's sampling parameters."""

    max_tokens: int | None
    seed: int | None
    temperature: float
    stop_token_ids: list[int]
    extra_args: dict[str, Any]


@dataclass(slots=True)
class ArRequest:
    """One request for an AR engine.

    Attributes:
        prompt_token_ids: real tokens on the first stage, placeholders behind it.
        sampling_params: ``extra_args`` may script the built-in models: ``dye`` (int, marks every row),
            ``tokens_per_step`` (rows a step), ``frames`` (exact number of codec frames).
        resumable: more segments follow, so the end of a segment is not the end of the request.
    """

    request_id: str
    prompt_token_ids: list[int]
    sampling_params: SamplingLike
    resumable: bool = False
    additional_information: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class ArStepOutput:
    """What one step made for one request.

    Attributes:
        new_token_ids: tokens sampled in this step, the stop token included.
        multimodal_output: this step's rows only, nested as in the payload schema.
        num_computed_tokens: positions whose rows exist; never falls.
        segment_finished: a segment of a resumable request ended.
        finished: the request ended; ``finish_reason`` is then ``"stop"`` or ``"length"``.
    """

    request_id: str
    new_token_ids: list[int]
    multimodal_output: dict[str, Any]
    num_computed_tokens: int
    finished: bool = False
    segment_finished: bool = False
    finish_reason: str | None = None


class ArEngine(Protocol):
    """Runs one AR model for many requests. Used by one thread."""

    def add_request(self, request: ArRequest) -> None:
        """Take a request; an id that is live is refused with ``ValueError``."""
        ...

    def feed(self, request_id: str, payload: Mapping[str, Any]) -> None:
        """Give a chunk of the upstream stage to a request (a payload as received, with string keys)."""
        ...

    def resume(self, request_id: str, prompt_token_ids: Sequence[int], *, resumable: bool) -> None:
        """Append a segment's prompt to a resumable request of the first stage."""
        ...

    def is_ready(self, request_id: str) -> bool:
        """Say whether a step would produce something for the request without another chunk."""
        ...

    def step(self, request_ids: Sequence[str]) -> list[ArStepOutput]:
        """Advance the named requests by one step, in order; those that are not ready are left out."""
        ...

    def abort(self, request_ids: Sequence[str]) -> None:
        """Forget the requests; unknown ids are ignored. Finished requests are forgotten by themselves."""
        ...

    def live_requests(self) -> frozenset[str]:
        """Return the ids of the requests whose state is held."""
        ...

    def close(self) -> None:
        """Forget every request and free what the engine holds; idempotent."""
        ...


def request_dye(request: ArRequest) -> int:
    """Return the number that marks every row of a request: scripted, or derived from seed and prompt."""
    params = request.sampling_params
    if "dye" in params.extra_args:
        return int(params.extra_args["dye"])
    seed = params.seed if params.temperature > 0 else None
    return mix("dye", seed, list(request.prompt_token_ids))
