"""Sampling parameters of one request on one stage, and the rule that they are cloned before a change."""

from __future__ import annotations

import copy
import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from omni_verify.errors import UsageError, unknown_value

__all__ = ["RequestOutputKind", "SamplingParams"]


class RequestOutputKind(enum.IntEnum):
    """How successive outputs of one request relate to each other (values as in vLLM)."""

    CUMULATIVE = 0
    DELTA = 1
    FINAL_ONLY = 2


@dataclass(slots=True)
class SamplingParams:
    """What a stage may vary for one request.

    `max_tokens` bounds the tokens that an AR stage generates; `max_frames` makes a decoder stop
    early, after so many codec frames. One object may be a server-wide default that many requests
    share, so a request that needs another value works on a `clone` (I41).
    """

    max_tokens: int | None = None
    max_frames: int | None = None
    seed: int | None = None
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    detokenize: bool = True
    stop_token_ids: list[int] = field(default_factory=list)
    output_kind: RequestOutputKind = RequestOutputKind.DELTA
    extra_args: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> SamplingParams:
        """Build parameters from a deployment's or a client's mapping.

        Raises:
            UsageError: an unknown name, or a value of the wrong type.
        """
        for name, value in values.items():
            check_parameter(name, value)
        return cls(**values).clone()

    def clone(self) -> SamplingParams:
        """Return a copy that shares no container with the original."""
        return replace(
            self, stop_token_ids=list(self.stop_token_ids), extra_args=copy.deepcopy(self.extra_args)
        )


_TYPES: dict[str, tuple[type, ...]] = {
    "max_tokens": (int, type(None)),
    "max_frames": (int, type(None)),
    "seed": (int, type(None)),
    "temperature": (int, float),
    "top_k": (int,),
    "top_p": (int, float),
    "repetition_penalty": (int, float),
    "detokenize": (bool,),
    "stop_token_ids": (list,),
    "output_kind": (RequestOutputKind,),
    "extra_args": (dict,),
}


def check_parameter(name: str, value: object) -> None:
    """Refuse an unknown name or a wrong type; a bool is no number here."""
    if name not in _TYPES:
        raise unknown_value("sampling parameter", name, _TYPES)
    valid = _TYPES[name]
    if not isinstance(value, valid) or (isinstance(value, bool) and bool not in valid):
        wanted = " or ".join(kind.__name__ for kind in valid)
        raise UsageError(f"sampling parameter {name} must be {wanted}, got {value!r}")
    if name in ("max_tokens", "max_frames") and isinstance(value, int) and value < 1:
        raise UsageError(f"sampling parameter {name} must be at least 1, got {value}")
