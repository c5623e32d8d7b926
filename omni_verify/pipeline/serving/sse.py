"""Server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing

from omni_verify.pipeline.serving.errors import ApiError, error_body

__all__ = ["DONE", "event", "guarded"]

DONE = b"data: [DONE]\n\n"


def event(payload: object) -> bytes:
    """Encode one event."""
    return b"data: " + json.dumps(payload, separators=(",", ":")).encode() + b"\n\n"


async def guarded(events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Pass events on; an error in the middle of the stream becomes its last event.

    The status line is gone by then, so this is the only way to tell the client.
    """
    async with aclosing(events) as source:  # type: ignore[type-var]
        try:
            async for item in source:
                yield item
        except (ApiError, ValueError) as error:
            shown = error if isinstance(error, ApiError) else ApiError(500, str(error))
            yield event(error_body(shown))
            yield DONE
