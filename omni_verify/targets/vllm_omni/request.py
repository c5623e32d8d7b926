"""The request that scenarios hand to a vllm-omni adapter: the adapter only needs its attributes."""

from __future__ import annotations

import enum
from typing import Any

__all__ = ["TargetRequest"]


class TargetRequest:
    """Carry what the adapter and its processors read and write on a scheduler request.

    One class serves both loaders, so that their verdicts compare; its status is a member of the target's
    own ``RequestStatus``. Every attribute is plain: 0.28 and later copy a request and replace attributes.

    Attributes:
        request_id: internal id.
        external_req_id: external id, the key of everything on the wire.
        status: member of the target's ``RequestStatus``.
        resumable: True while more input segments may come.
        num_computed_tokens, num_output_placeholders: their difference is the send watermark.
        prompt_token_ids, additional_information: what the adapter delivers to a generation stage.
    """

    def __init__(
        self, request_id: str, external_req_id: str, status: enum.IntEnum, *, resumable: bool
    ) -> None:
        self.request_id = request_id
        self.external_req_id = external_req_id
        self.status = status
        self.resumable = resumable
        self.num_computed_tokens = 0
        self.num_output_placeholders = 0
        self.num_prompt_tokens = 0
        self.num_tokens = 0
        self.prompt_token_ids: list[int] = []
        self._all_token_ids: list[int] = []
        self._output_token_ids: list[int] = []
        self.all_token_ids: Any = self._all_token_ids
        self.output_token_ids: Any = self._output_token_ids
        self.additional_information: dict[str, Any] | None = None
        self.prefill_stats: Any = None

    def is_finished(self) -> bool:
        """Tell whether the present status is a finished one."""
        return bool(type(self.status).is_finished(self.status))  # type: ignore[attr-defined]

    def update_block_hashes(self) -> None:
        """Accept the call that follows a prompt update; there is no block cache here."""

    def __repr__(self) -> str:
        return f"<request {self.request_id} ({self.external_req_id}) {self.status.name}>"
