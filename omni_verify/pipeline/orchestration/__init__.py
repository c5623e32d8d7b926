"""The orchestrator: admission, placeholders, forwarding, completion, abort and release."""

from omni_verify.pipeline.orchestration.messages import (
    ClientMessage,
    CompletionOutput,
    ErrorMessage,
    OutputMessage,
    RequestOutput,
)
from omni_verify.pipeline.orchestration.orchestrator import DuplicateRequestError, Orchestrator
from omni_verify.pipeline.orchestration.state import RequestState, StageInfo

__all__ = [
    "ClientMessage",
    "CompletionOutput",
    "DuplicateRequestError",
    "ErrorMessage",
    "Orchestrator",
    "OutputMessage",
    "RequestOutput",
    "RequestState",
    "StageInfo",
]
