"""The bridge between the server's event loop and the pipeline's threads."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from omni_verify.pipeline.orchestration.messages import ClientMessage, ErrorMessage, OutputMessage
from omni_verify.pipeline.orchestration.pipeline import Pipeline
from omni_verify.pipeline.serving.errors import api_error
from omni_verify.pipeline.stages.params import SamplingParams

__all__ = ["AsyncEngine", "Job"]


@dataclass(frozen=True, slots=True)
class Job:
    """One request that has passed every check and may cost engine work."""

    request_id: str
    prompt: Mapping[str, Any]
    params: Sequence[SamplingParams]
    modalities: Collection[str] | None = None
    prompt_tokens: int = field(default=0)


class AsyncEngine:
    """Run jobs from coroutines; a coroutine that is cancelled or closed aborts its request everywhere.

    `calls` counts the jobs that reached the pipeline: a refusal must not raise it (I42b).
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.calls = 0

    async def generate(self, job: Job) -> AsyncIterator[OutputMessage]:
        """Yield the outputs of one request; the last one is marked finished.

        Raises:
            ApiError: the pipeline refused or failed the request.
        """
        loop = asyncio.get_running_loop()
        inbox: asyncio.Queue[ClientMessage] = asyncio.Queue()

        def sink(message: ClientMessage) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
                loop.call_soon_threadsafe(inbox.put_nowait, message)

        self.calls += 1
        self.pipeline.submit(job.request_id, job.prompt, job.params, sink, modalities=job.modalities)
        done = False
        try:
            while not done:
                message = await inbox.get()
                done = isinstance(message, ErrorMessage) or message.finished
                if isinstance(message, ErrorMessage):
                    raise api_error(message)
                yield message
        finally:
            if not done:
                self.pipeline.abort(job.request_id)
