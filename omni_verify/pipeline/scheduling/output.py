"""What a scheduler tells the model runner to do in one step, and what the runner answers.

The names of the first three follow vLLM's ``SchedulerOutput``, since a transfer adapter reads them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from omni_verify.pipeline.request import Request

__all__ = ["CachedRequestData", "NewRequestData", "RunnerOutput", "SchedulerOutput"]


@dataclass(slots=True)
class NewRequestData:
    """A request that runs for the first time; `prompt_token_ids` is what there is to compute."""

    req_id: str
    prompt_token_ids: list[int]
    num_computed_tokens: int
    sampling_params: Any
    additional_information: dict[str, Any] | None = None
    resumable: bool = False


@dataclass(slots=True)
class CachedRequestData:
    """Requests that have run before; the adapter attaches each one's new payload."""

    req_ids: list[str] = field(default_factory=list)
    prompt_token_ids: dict[str, list[int]] = field(default_factory=dict)
    additional_information: dict[str, dict[str, Any] | None] = field(default_factory=dict)


@dataclass(slots=True)
class SchedulerOutput:
    """One step: who runs, and how many tokens of each.

    `finished_req_ids` names the requests that ended since the previous step: the runner drops
    their state before it runs the others, because an id may come back in the same step. `requests`
    holds the very objects that run: a result belongs to them and not to whoever has the id later.
    """

    scheduled_new_reqs: list[NewRequestData] = field(default_factory=list)
    scheduled_cached_reqs: CachedRequestData = field(default_factory=CachedRequestData)
    num_scheduled_tokens: dict[str, int] = field(default_factory=dict)
    finished_req_ids: set[str] = field(default_factory=set)
    requests: dict[str, Request] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Tell whether no request runs in this step."""
        return not self.num_scheduled_tokens


@dataclass(slots=True)
class RunnerOutput:
    """What one step made of one request.

    Attributes:
        token_ids: sampled tokens; empty for a part of a prefill.
        inter_stage_output: what the edge's processor gets, for example ``{"codes": {"audio": [1, Q]}}``.
        client_output: what the orchestrator gets, for example ``{"audio": [samples], "sr": 24000}``.
        num_computed_tokens: positions whose state exists now; None where the scheduler counts itself.
        stopped: the model ended the request by itself; `length_capped` says it was by a limit.
        segment_finished: the current input segment ended, the request goes on.
        error: the request cannot go on; its batch mates are not affected (I48).
    """

    token_ids: list[int] = field(default_factory=list)
    inter_stage_output: dict[str, Any] | None = None
    client_output: dict[str, Any] | None = None
    num_computed_tokens: int | None = None
    stopped: bool = False
    length_capped: bool = False
    segment_finished: bool = False
    error: str | None = None
