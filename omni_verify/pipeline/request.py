"""A request as one stage's scheduler holds it, and its status.

Names follow vLLM's ``Request`` and ``RequestStatus`` (plus vllm-omni's ``WAITING_FOR_CHUNK``), because the
transfer adapter is driven with either: it reads only the attributes listed here.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

__all__ = ["PrefillStats", "Request", "RequestStatus"]


class RequestStatus(enum.Enum):
    """Where a request stands in its stage; only the ``FINISHED_*`` members are final."""

    WAITING = enum.auto()
    WAITING_FOR_STREAMING_REQ = enum.auto()
    WAITING_FOR_CHUNK = enum.auto()
    RUNNING = enum.auto()
    PREEMPTED = enum.auto()
    FINISHED_STOPPED = enum.auto()
    FINISHED_LENGTH_CAPPED = enum.auto()
    FINISHED_ABORTED = enum.auto()
    FINISHED_IGNORED = enum.auto()
    FINISHED_ERROR = enum.auto()

    @staticmethod
    def is_finished(status: RequestStatus) -> bool:
        """Tell whether ``status`` is final."""
        return status.name.startswith("FINISHED_")


@dataclass
class PrefillStats:
    """Counters that the model runner fills in while a prompt is computed (tokens)."""

    num_prompt_tokens: int = 0
    num_computed_tokens: int = 0


@dataclass(eq=False)
class Request:
    """One request of one stage; compared by identity, because an id may be used again (I30, I38).

    Attributes:
        request_id: internal id, the key of this stage's scheduler.
        external_req_id: the key of everything on the wire; equal to ``request_id`` on every stage but the
            first.
        resumable: more input segments may follow under the same external id.
        num_computed_tokens: prompt and output tokens whose state exists, output placeholders included.
        num_output_placeholders: tokens that async scheduling counted before they were committed.
        prompt_token_ids: what the stage computes next; on a generation stage the codes of one chunk.
        additional_information: the received payload that goes with the prompt, or None.
        final_stage_id: last stage that serves this request, or None when unknown; a stage at or behind it
            puts nothing (W19).
    """

    request_id: str
    external_req_id: str | None = None
    status: RequestStatus = RequestStatus.WAITING
    resumable: bool = False
    num_computed_tokens: int = 0
    num_output_placeholders: int = 0
    prompt_token_ids: list[int] = field(default_factory=list)
    output_token_ids: list[int] = field(default_factory=list)
    additional_information: Any = None
    prefill_stats: PrefillStats | None = None
    sampling_params: Any = None
    final_stage_id: int | None = None
    num_prompt_tokens: int = -1

    def __post_init__(self) -> None:
        if self.external_req_id is None:
            self.external_req_id = self.request_id
        if self.num_prompt_tokens < 0:
            self.num_prompt_tokens = len(self.prompt_token_ids)

    @property
    def all_token_ids(self) -> list[int]:
        """Prompt and output token ids, a new list."""
        return [*self.prompt_token_ids, *self.output_token_ids]

    @property
    def num_tokens(self) -> int:
        """Number of prompt and output tokens."""
        return len(self.prompt_token_ids) + len(self.output_token_ids)

    def is_finished(self) -> bool:
        """Tell whether the status is final; a resumable request may still come back from it."""
        return RequestStatus.is_finished(self.status)
