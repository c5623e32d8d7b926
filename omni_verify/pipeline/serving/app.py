"""The HTTP application: routes, error shape and limits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from fastapi import FastAPI, Request, Response, WebSocket
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from omni_verify.pipeline.serving.audio import FORMATS
from omni_verify.pipeline.serving.body_limit import BodyLimit
from omni_verify.pipeline.serving.chat import chat_job, complete_chat, stream_chat
from omni_verify.pipeline.serving.errors import ApiError, error_body
from omni_verify.pipeline.serving.schemas import ChatCompletionRequest, SpeechRequest
from omni_verify.pipeline.serving.service import Service
from omni_verify.pipeline.serving.speech import (
    checked_speech_job,
    stream_speech,
    synthesize,
    timestamp_headers,
)
from omni_verify.pipeline.serving.sse import guarded
from omni_verify.pipeline.serving.websocket import serve_session

__all__ = ["MAX_BODY_BYTES", "create_app"]

MAX_BODY_BYTES = 4 * 1024 * 1024
"""Largest request body; a longer one is refused while it arrives."""

T = TypeVar("T")


def create_app(service: Service) -> FastAPI:
    """Build the application of one service; its shutdown closes the pipeline."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await asyncio.to_thread(service.pipeline.close)

    app = FastAPI(title="omni-verify reference pipeline", lifespan=lifespan, openapi_url=None)
    app.state.service = service
    app.add_middleware(BodyLimit, max_bytes=MAX_BODY_BYTES)
    add_error_handlers(app)
    add_state_routes(app, service)
    add_generation_routes(app, service)
    return app


def add_error_handlers(app: FastAPI) -> None:
    """Give every error the API's own shape."""

    @app.exception_handler(ApiError)
    async def on_api_error(_request: Request, error: ApiError) -> Response:
        return JSONResponse(error_body(error), status_code=error.status)

    @app.exception_handler(RequestValidationError)
    async def on_validation_error(_request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part != "body")
        shown = ApiError(400, f"{where or 'body'}: {first['msg']}", param=where or None, code="invalid_value")
        return JSONResponse(error_body(shown), status_code=400)

    @app.exception_handler(HTTPException)
    async def on_http_error(_request: Request, error: HTTPException) -> Response:
        return JSONResponse(
            error_body(ApiError(error.status_code, str(error.detail))), status_code=error.status_code
        )

    @app.exception_handler(Exception)
    async def on_error(_request: Request, error: Exception) -> Response:
        shown = ApiError(500, f"{type(error).__name__}: {error}")
        return JSONResponse(error_body(shown), status_code=500)


def add_state_routes(app: FastAPI, service: Service) -> None:
    """Add the routes that only look."""
    created = int(time.time())

    @app.get("/health")
    async def health() -> Response:
        stages = {str(handle.stage_id): handle.is_alive() for handle in service.pipeline.handles}
        healthy = service.pipeline.is_healthy()
        return JSONResponse(
            {"status": "ok" if healthy else "unhealthy", "stages": stages},
            status_code=200 if healthy else 503,
        )

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(service.metrics.render(), media_type=CONTENT_TYPE_LATEST)

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        entry = {"id": service.model.name, "object": "model", "created": created, "owned_by": "omni-verify"}
        return {"object": "list", "data": [entry]}


def add_generation_routes(app: FastAPI, service: Service) -> None:
    """Add the routes that make the pipeline work."""

    @app.post("/v1/chat/completions")
    async def chat(body: ChatCompletionRequest, request: Request) -> Response:
        job = chat_job(service, body)
        if body.stream:
            return PieceResponse(guarded(stream_chat(service, body, job)), media_type="text/event-stream")
        return JSONResponse(await until_left(request, complete_chat(service, body, job)))

    @app.post("/v1/audio/speech")
    async def speech(body: SpeechRequest, request: Request) -> Response:
        job = checked_speech_job(service, body)
        if body.is_streaming:
            pieces = stream_speech(service, body, job)
            if body.stream_format == "audio":
                return PieceResponse(pieces, media_type=FORMATS[body.response_format])
            return PieceResponse(guarded(pieces), media_type="text/event-stream")
        data, result = await until_left(request, synthesize(service, body, job))
        headers = timestamp_headers(result.words) if body.word_timestamps else {}
        return Response(data, media_type=FORMATS[body.response_format], headers=headers)

    @app.websocket("/v1/audio/speech/stream")
    async def speech_stream(websocket: WebSocket) -> None:
        await serve_session(websocket, service)


class PieceResponse(StreamingResponse):
    """A stream whose source is closed when the response ends, however it ends.

    The framework would leave that to the garbage collector, and with it the abort of the request.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the pieces."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            close = getattr(self.body_iterator, "aclose", None)
            if close is not None:
                await close()


async def until_left(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Run a request that answers once; cancel it, which aborts it, when its client leaves.

    Raises:
        ApiError: the client left (nobody sees it).
    """
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(wait_disconnect(request))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ApiError(499, "the client closed the connection")
    finally:
        for task in (working, watching):
            task.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)


async def wait_disconnect(request: Request) -> None:
    """Return when the client has closed the connection; the body has been read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
