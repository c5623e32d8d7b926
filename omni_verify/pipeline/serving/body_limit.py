"""Refuse a request body that is too large, before it is held in memory."""

from __future__ import annotations

import json

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from omni_verify.pipeline.serving.errors import ApiError, error_body

__all__ = ["BodyLimit"]


class _TooLarge(BaseException):  # not an Exception: the framework turns those into a 400
    pass


class BodyLimit:
    """ASGI middleware: counts the bytes that arrive, whatever the length header says."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self.app, self.max_bytes = app, max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        received, started = 0, False

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.max_bytes:
                raise _TooLarge
            return message

        async def noted(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, counted, noted)
        except _TooLarge:
            if not started:
                await self.refuse(send)

    async def refuse(self, send: Send) -> None:
        """Answer with the API's own error shape."""
        error = ApiError(
            413, f"the request body is larger than {self.max_bytes} bytes", code="request_too_large"
        )
        body = json.dumps(error_body(error)).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        await send({"type": "http.response.start", "status": 413, "headers": headers})
        await send({"type": "http.response.body", "body": body})
