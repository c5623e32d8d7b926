"""What a prompt says about later stages: the length of the Talker's prompt, speaker and language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["ASSISTANT", "IM_END", "IM_START", "SYSTEM", "USER", "request_texts", "talker_prompt_len"]

IM_START = 151644
IM_END = 151645
SYSTEM = 8948
USER = 872
ASSISTANT = 77091
# The Talker sees only the head of the assistant's turn: role, TTS begin and the first text positions.
ASSISTANT_HEAD = 9


def talker_prompt_len(prompt_token_ids: Sequence[int]) -> int:
    """Return how many positions the Talker's prompt has for this Thinker prompt.

    Every turn starts at ``IM_START`` and names its role next: a system turn contributes nothing, a user
    turn its length, an assistant turn nine positions if it is the last turn and otherwise nothing.
    """
    starts = [i for i, token in enumerate(prompt_token_ids) if token == IM_START]
    ends = [*starts[1:], len(prompt_token_ids)]
    total = 0
    for start, end in zip(starts, ends, strict=False):  # without a turn there is an end but no start
        role = prompt_token_ids[start + 1] if start + 1 < len(prompt_token_ids) else None
        if role == USER:
            total += end - start
        elif role == ASSISTANT and end == len(prompt_token_ids):
            total += ASSISTANT_HEAD
    return total


def request_texts(request: Any) -> dict[str, Any]:
    """Return ``speaker`` and ``language`` of a request, where it has them."""
    info = getattr(request, "additional_information", None)
    if not isinstance(info, Mapping):
        return {}
    return {key: info[key] for key in ("speaker", "language") if info.get(key) is not None}
