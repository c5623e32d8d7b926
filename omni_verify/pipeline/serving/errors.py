"""Errors as an OpenAI-compatible client expects them: one JSON object with one ``error``."""

from __future__ import annotations

from typing import Any

from omni_verify.errors import OmniVerifyError
from omni_verify.pipeline.orchestration.messages import ErrorMessage

__all__ = ["ApiError", "api_error", "error_body"]

_TYPES = {
    400: "invalid_request_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "invalid_request_error",
    422: "invalid_request_error",
    503: "service_unavailable_error",
}


class ApiError(OmniVerifyError):
    """A request is refused or failed; a handler turns it into a response.

    Args:
        param: the request field at fault.
        code: a word for programs, for example ``"model_not_found"``.
    """

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code


def error_body(error: ApiError) -> dict[str, Any]:
    """Build the JSON object of an error response."""
    kind = _TYPES.get(error.status, "invalid_request_error" if error.status < 500 else "server_error")
    return {"error": {"message": error.message, "type": kind, "param": error.param, "code": error.code}}


def api_error(message: ErrorMessage) -> ApiError:
    """Turn the pipeline's refusal or failure into the client's error."""
    return ApiError(message.status_code, message.message)
