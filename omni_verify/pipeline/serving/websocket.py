"""WebSocket ``/v1/audio/speech/stream``: text in, speech out, with word times.

The client sends ``session.config``, any number of ``input.text``, then ``input.done``, which makes one
utterance of the text so far; the connection stays open for the next one until ``session.close``.
The server answers each utterance with ``audio.start``, audio, ``audio.done`` and ``session.done``.
Audio is a binary frame, or with word timestamps an ``audio.chunk`` with base64 PCM and
``timestamps: null``; a last ``audio.chunk`` without audio has the words of the whole utterance.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Any, TypeVar

from fastapi import WebSocket, WebSocketDisconnect
from pydantic import ValidationError

from omni_verify.pipeline.serving import refusals
from omni_verify.pipeline.serving.errors import ApiError, error_body
from omni_verify.pipeline.serving.schemas import SpeechSessionConfig
from omni_verify.pipeline.serving.service import Service
from omni_verify.pipeline.serving.speech import SpeechResult, generate_audio_chunks, speech_job

__all__ = ["IDLE_TIMEOUT_S", "SpeechSession", "serve_session"]

T = TypeVar("T")

MAX_WAITING_MESSAGES = 256
"""Messages that wait while an utterance is spoken; after them the client has to wait."""
IDLE_TIMEOUT_S = 60.0
"""Seconds without a message from the client after which an idle connection is closed."""


async def serve_session(websocket: WebSocket, service: Service) -> None:
    """Serve one connection until the client ends it; a client that leaves aborts its utterance."""
    await websocket.accept()
    try:
        await SpeechSession(websocket, service).run()
    except WebSocketDisconnect:
        return
    except TimeoutError:
        await websocket.close(code=1001, reason="idle")


class SpeechSession:
    """One connection: its configuration, the text so far, and the number of utterances."""

    def __init__(self, websocket: WebSocket, service: Service) -> None:
        self.websocket, self.service = websocket, service
        self.config: SpeechSessionConfig | None = None
        self.text: list[str] = []
        self.text_bytes = 0
        self.utterance = 0
        self.inbox: asyncio.Queue[str] = asyncio.Queue(MAX_WAITING_MESSAGES)
        self.left = asyncio.Event()

    async def run(self) -> None:
        """Take messages until ``session.close``; a wrong one is answered with an error."""
        reader = asyncio.ensure_future(self.read())
        try:
            while True:
                raw = await self.until_left(asyncio.wait_for(self.inbox.get(), IDLE_TIMEOUT_S))
                try:
                    if not await self.handle(parse_message(raw)):
                        await self.websocket.close()
                        return
                except ApiError as error:
                    await self.send_error(error)
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    async def read(self) -> None:
        """Queue what the client sends, so that it may go on while an utterance is spoken."""
        while True:
            message = await self.websocket.receive()
            if message["type"] == "websocket.disconnect":
                self.left.set()
                return
            await self.inbox.put(message.get("text") or "")

    async def handle(self, message: dict[str, Any]) -> bool:
        """Act on one message; False ends the connection.

        Raises:
            ApiError: the message is refused; the session goes on.
        """
        kind = message.get("type")
        if kind == "session.config":
            self.config = parse_config(self.service, message)
        elif kind == "input.text":
            self.add_text(message.get("text"))
        elif kind == "input.done":
            await self.flush()
        elif kind == "session.close":
            return False
        else:
            raise ApiError(400, f"unknown message type {kind!r}", param="type")
        return True

    def add_text(self, text: object) -> None:
        """Collect text, up to what one prompt may have."""
        if self.config is None:
            raise ApiError(400, "send session.config first", param="type")
        if not isinstance(text, str):
            raise ApiError(400, "text must be a string", param="text")
        limit = self.service.model.max_input_tokens
        if self.text_bytes + len(text.encode()) > limit:
            raise ApiError(400, f"the utterance is longer than {limit} tokens", param="text")
        self.text.append(text)
        self.text_bytes += len(text.encode())

    async def flush(self) -> None:
        """Synthesize the text so far."""
        if self.config is None:
            raise ApiError(400, "send session.config first", param="type")
        text = "".join(self.text).strip()
        self.text, self.text_bytes = [], 0
        if not text:
            raise ApiError(400, "input is empty", param="input")
        await self.until_left(self.speak(text, self.config))
        self.utterance += 1

    async def until_left(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something; when the client leaves meanwhile, cancel it, which aborts its request.

        Raises:
            WebSocketDisconnect: the client left.
        """
        working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(self.left.wait())
        try:
            await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            raise WebSocketDisconnect
        finally:
            for task in (working, leaving):
                task.cancel()
            await asyncio.gather(working, leaving, return_exceptions=True)

    async def speak(self, text: str, config: SpeechSessionConfig) -> None:
        """Send one utterance."""
        job = speech_job(
            self.service,
            text,
            stream=config.stream_audio,
            word_timestamps=config.word_timestamps,
            voice=config.voice,
            language=config.language,
            seed=config.seed,
        )
        where = {"utterance_index": self.utterance, "sentence_index": 0}
        await self.send(
            {"type": "audio.start", **where, "sentence_text": text, "format": config.response_format}
        )
        result = SpeechResult()
        with self.service.metrics.request("speech_websocket") as timer:
            chunks = generate_audio_chunks(
                self.service,
                job,
                timer,
                result,
                response_format=config.response_format,
                target_rate=config.sample_rate,
            )
            async with aclosing(chunks) as pieces:  # type: ignore[type-var]
                await self.send_audio(pieces, config, where)
        if config.word_timestamps:
            await self.send(last_chunk(result, where))
        await self.send({"type": "audio.done", **where, "total_samples": result.samples})
        await self.send({"type": "session.done", "utterance_index": self.utterance, "total_sentences": 1})

    async def send_audio(self, pieces: Any, config: SpeechSessionConfig, where: dict[str, int]) -> None:
        """Send audio as it comes; without `stream_audio` as one frame at the end."""
        whole, number = bytearray(), 0
        async for piece in pieces:
            if config.word_timestamps:
                encoded = base64.b64encode(piece).decode("ascii")
                await self.send(
                    {
                        "type": "audio.chunk",
                        **where,
                        "chunk_id": number,
                        "audio_b64": encoded,
                        "timestamps": None,
                    }
                )
                number += 1
            elif config.stream_audio:
                await self.websocket.send_bytes(piece)
            else:
                whole += piece
        if whole:
            await self.websocket.send_bytes(bytes(whole))

    async def send(self, payload: dict[str, Any]) -> None:
        """Send one JSON message."""
        await self.websocket.send_text(json.dumps(payload))

    async def send_error(self, error: ApiError) -> None:
        """Tell the client what was wrong."""
        await self.send({"type": "error", "message": error.message, **error_body(error)})


def last_chunk(result: SpeechResult, where: dict[str, int]) -> dict[str, Any]:
    """Build the closing chunk: no audio, the words of the whole utterance, its span."""
    return {
        "type": "audio.chunk",
        **where,
        "chunk_id": result.chunks,
        "audio_b64": "",
        "timestamps": result.words,
        "chunk_start_ms": 0,
        "chunk_end_ms": round(result.samples * 1000 / result.rate),
    }


def parse_message(raw: str) -> dict[str, Any]:
    """Read one client message."""
    try:
        message = json.loads(raw)
    except ValueError as error:
        raise ApiError(400, f"the message is not JSON: {error}") from error
    if not isinstance(message, dict):
        raise ApiError(400, "the message must be a JSON object")
    return message


def parse_config(service: Service, message: dict[str, Any]) -> SpeechSessionConfig:
    """Read and check a session configuration."""
    try:
        config = SpeechSessionConfig(**{name: value for name, value in message.items() if name != "type"})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ApiError(400, f"{where}: {first['msg']}", param=where) from error
    refusals.check_session_config(service.model, config)
    return config
