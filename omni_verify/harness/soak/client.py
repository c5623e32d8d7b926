"""One request of a soak to an OpenAI-compatible server: stream it, count its chunks, leave when planned."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import socket
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from omni_verify.checks.observation import Broken
from omni_verify.errors import TargetUnusableError, UsageError, unknown_value
from omni_verify.harness.soak.messages import Over
from omni_verify.harness.soak.plan import Plan

__all__ = ["ENDPOINTS", "SoakClient"]

ENDPOINTS = ("chat", "speech")
"""``chat``: ``/v1/chat/completions`` with audio; ``speech``: ``/v1/audio/speech`` as a stream of PCM."""
_WORDS_A_CHUNK = 6
_READ = 1 << 16
_AGAIN_S = 0.5
_SHOWN = 200


class SoakClient:
    """Sends the planned requests; usable from many threads.

    Args:
        url: ``http://HOST:PORT``.
        endpoint: one of `ENDPOINTS`.
        prefix: of the request ids.
        limit_s: seconds without a byte after which a request hangs.

    Raises:
        UsageError: no such endpoint, or no http address.
    """

    def __init__(self, url: str, endpoint: str, prefix: str, limit_s: float) -> None:
        if endpoint not in ENDPOINTS:
            raise unknown_value("endpoint", endpoint, ENDPOINTS)
        self._host, self._port = _address(url)
        self.endpoint, self._prefix, self._limit_s = endpoint, prefix, limit_s
        self.model = ""

    def look(self, bound_s: float) -> str:
        """Ask the server for its model; one that still starts up gets `bound_s` seconds.

        Raises:
            TargetUnusableError: it does not answer in that time, or has no model.
        """
        end = time.monotonic() + bound_s
        while True:
            try:
                return self._look()
            except TargetUnusableError:
                if time.monotonic() + _AGAIN_S > end:
                    raise
            time.sleep(_AGAIN_S)

    def _look(self) -> str:
        try:
            with contextlib.closing(self._connect()) as link:
                link.request("GET", "/v1/models")
                answer = json.loads(link.getresponse().read())
            self.model = str(answer["data"][0]["id"])
        except (OSError, http.client.HTTPException, ValueError, LookupError) as error:
            raise TargetUnusableError(
                f"no server with a model at http://{self._host}:{self._port}/v1/models: "
                f"{type(error).__name__}: {error}."
            ) from None
        return self.model

    def run(self, plan: Plan) -> Over:
        """Run one request to its planned end."""
        times: list[float] = []
        status, error = "done", ""
        broken: list[Broken] = []
        link = self._connect()
        try:
            self._send(link, plan)
            if plan.kind == "abort-before" and plan.flight:
                status = "left"
            else:
                response = link.getresponse()
                if response.status != http.client.OK:
                    body = response.read(500).decode(errors="replace")
                    return _over(plan, "failed", times, f"status {response.status}: {body}", [])
                status, broken = self._follow(response, plan, times)
        except TimeoutError:
            status, error = "failed", f"no byte for {self._limit_s:g} s"
        except (OSError, http.client.HTTPException, ValueError) as failure:
            status, error = "failed", f"{type(failure).__name__}: {failure}"
        finally:
            _hang_up(link)
        return _over(plan, status, times, error, broken)

    def _follow(
        self, response: http.client.HTTPResponse, plan: Plan, times: list[float]
    ) -> tuple[str, list[Broken]]:
        """Read until the end or until the client leaves."""
        ends = 0
        if plan.leaves and not plan.reads:
            return "left", []
        for kind in self._chunks(response):
            if kind == "audio":
                times.append(time.monotonic())
                if plan.leaves and len(times) >= plan.reads:
                    return "left", []
            ends += kind == "end"
        broken = []
        if ends != 1:
            broken.append(_broken("I7", f"a stream saw its end {ends} times", "one end", str(ends)))
        if not times:
            broken.append(
                _broken("I36", "a stream ended without audio and without an error", "audio", "none")
            )
        return "done", broken

    def _chunks(self, response: http.client.HTTPResponse) -> Iterator[str]:
        """Yield ``audio`` for each piece of audio and ``end`` for each end of the stream."""
        if self.endpoint == "speech":
            while response.read1(_READ):
                yield "audio"
            yield "end"
            return
        for line in response:
            if not line.startswith(b"data: "):
                continue
            body = line[6:].strip()
            if body == b"[DONE]":
                continue
            try:
                yield from _meaning(json.loads(body))
            except (AttributeError, TypeError, UnicodeDecodeError, json.JSONDecodeError):
                shown = body[:_SHOWN].decode(errors="replace")
                raise ValueError(f"an event of the stream is not of the API: {shown!r}") from None

    def _send(self, link: http.client.HTTPConnection, plan: Plan) -> None:
        text = " ".join(f"word{n}" for n in range(plan.chunks * _WORDS_A_CHUNK))
        name = f"{self._prefix}{plan.label}"
        body: dict[str, Any] = {"model": self.model, "stream": True, "request_id": name, "seed": plan.index}
        if self.endpoint == "chat":
            path = "/v1/chat/completions"
            body |= {"messages": [{"role": "user", "content": text}], "modalities": ["text", "audio"]}
        else:
            path = "/v1/audio/speech"
            body |= {"input": text, "response_format": "pcm", "stream_format": "audio"}
        headers = {"Content-Type": "application/json", "X-Request-Id": name}
        link.request("POST", path, json.dumps(body), headers)

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self._host, self._port, timeout=self._limit_s)


def _meaning(event: Any) -> list[str]:
    """Tell what an event brings: ``audio`` and ``end``, in order."""
    if "error" in event:
        raise ValueError(f"an error in the stream: {event['error']}")
    found = []
    for choice in event.get("choices", ()):
        found += ["audio"] if (choice.get("delta") or {}).get("audio") else []
        found += ["end"] if choice.get("finish_reason") else []
    return found


def _address(url: str) -> tuple[str, int]:
    """Read ``http://HOST[:PORT]``; anything else in it would be ignored, so it is refused."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:  # a port that is none, brackets that do not close
        host, port = None, None
    if not host or parts.scheme != "http" or parts.path not in ("", "/") or parts.query or parts.username:
        raise UsageError(
            f"--url names a server as http://HOST:PORT, got {url!r}; its paths are known (--endpoint)."
        )
    return host, 80 if port is None else port


def _hang_up(link: http.client.HTTPConnection) -> None:
    """Leave at once, as a client that closes its window does."""
    with contextlib.suppress(OSError):
        if link.sock is not None:
            link.sock.shutdown(socket.SHUT_RDWR)
    link.close()


def _broken(invariant: str, message: str, expected: str, found: str) -> Broken:
    return Broken(family=(invariant,), message=message, expected=expected, found=found)


def _over(plan: Plan, status: str, times: list[float], error: str, broken: list[Broken]) -> Over:
    return Over(
        index=plan.index,
        generation=plan.generation,
        status=status,
        chunks=len(times),
        first=times[0] - plan.submitted if times else 0.0,
        total=time.monotonic() - plan.submitted if status == "done" else 0.0,
        gaps=[b - a for a, b in itertools.pairwise(times)],
        broken=broken,
        error=error,
    )
