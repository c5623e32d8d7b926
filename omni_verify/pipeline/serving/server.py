"""Run the application with uvicorn, so that one signal ends everything cleanly."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn

from omni_verify.pipeline.orchestration.pipeline import abort_all
from omni_verify.pipeline.serving.app import create_app
from omni_verify.pipeline.serving.service import Service

__all__ = ["GracefulServer", "build_server", "run_server"]

logger = logging.getLogger(__name__)

GRACE_S = 10
"""Seconds that open connections get to finish after a signal."""


class GracefulServer(uvicorn.Server):
    """A server that tells live requests about the end, instead of waiting for them.

    Args:
        accepting: called once when connections are accepted, on the server's thread.
    """

    def __init__(
        self, config: uvicorn.Config, service: Service, accepting: Callable[[], None] | None = None
    ) -> None:
        super().__init__(config)
        self._service, self._accepting = service, accepting
        self._serving_loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Remember the loop for the signal handler; say when connections are accepted, and not before."""
        self._serving_loop = asyncio.get_running_loop()
        await super().startup(sockets=sockets)
        if self.started and self._accepting is not None:
            self._accepting()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin the shutdown: no new connections, live requests end with an error."""
        super().handle_exit(sig, frame)
        if self._serving_loop is not None:
            # Not from here: a signal handler may interrupt code that holds the very lock it needs.
            self._serving_loop.call_soon_threadsafe(self.end_requests)

    def end_requests(self) -> None:
        """End every live request and tell its client."""
        orchestrator = self._service.pipeline.orchestrator
        orchestrator.call_soon(lambda: abort_all(orchestrator))


def build_server(
    service: Service,
    host: str,
    port: int,
    *,
    log_level: str = "info",
    accepting: Callable[[], None] | None = None,
) -> GracefulServer:
    """Build the server; its shutdown closes the pipeline."""
    config = uvicorn.Config(
        create_app(service), host=host, port=port, log_level=log_level, timeout_graceful_shutdown=GRACE_S
    )
    return GracefulServer(config, service, accepting)


def run_server(
    start: Callable[[], Service],
    host: str,
    port: int,
    *,
    log_level: str = "info",
    announce: Callable[[int], None],
) -> int:
    """Start the pipeline, serve until SIGINT or SIGTERM, and close everything; returns an exit code.

    Args:
        start: builds the service; may take a while and may be interrupted.
        announce: is told the port once it accepts connections.
    """
    ending = False

    def on_signal(_signum: int, _frame: FrameType | None) -> None:
        # uvicorn sends the signal again when it is done; by then there is nothing left to stop.
        if not ending:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    service = None
    try:
        service = start()
        server = build_server(
            service,
            host,
            port,
            log_level=log_level,
            accepting=lambda: announce(listener.getsockname()[1]),
        )
        listener = server.config.bind_socket()
        ending = True
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        logger.info("interrupted while starting")
    finally:
        ending = True
        if service is not None:
            service.pipeline.close()
        for number, handler in before.items():
            signal.signal(number, handler)
    return 0
