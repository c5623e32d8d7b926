"""Prometheus metrics of one server, in a registry of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

__all__ = ["ServerMetrics"]

Statistics = Callable[[], Mapping[str, float]]


class ServerMetrics:
    """Counters of the API next to a live view of the pipeline's statistics."""

    def __init__(self, statistics: Statistics) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "omni_requests", "Requests by endpoint and result", ["endpoint", "result"], registry=self.registry
        )
        self.in_flight = Gauge("omni_requests_in_flight", "Requests now served", registry=self.registry)
        self.first_audio = Histogram(
            "omni_time_to_first_audio_seconds",
            "From arrival to the first audio bytes",
            registry=self.registry,
        )
        self.audio_seconds = Counter("omni_audio_seconds", "Seconds of audio sent", registry=self.registry)
        self.registry.register(_PipelineCollector(statistics))

    @contextmanager
    def request(self, endpoint: str) -> Iterator[RequestTimer]:
        """Count one request from arrival to end; a request whose client left counts as aborted."""
        self.in_flight.inc()
        timer, result = RequestTimer(self), "aborted"
        try:
            yield timer
            result = "ok"
        except Exception:
            result = "error"
            raise
        finally:
            self.in_flight.dec()
            self.requests.labels(endpoint, result).inc()

    def render(self) -> bytes:
        """Return the text exposition format."""
        return generate_latest(self.registry)


class RequestTimer:
    """Times of one request."""

    def __init__(self, metrics: ServerMetrics) -> None:
        self._metrics, self._since, self._first = metrics, time.perf_counter(), True

    def audio(self, samples: int, rate: int) -> None:
        """Note audio that goes out now."""
        if samples and self._first:
            self._first = False
            self._metrics.first_audio.observe(time.perf_counter() - self._since)
        self._metrics.audio_seconds.inc(samples / rate)


class _PipelineCollector(Collector):
    def __init__(self, statistics: Statistics) -> None:
        self._statistics = statistics

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily("omni_pipeline", "Counters and gauges of the pipeline", labels=["name"])
        for name, value in sorted(self._statistics().items()):
            family.add_metric([name], value)
        yield family
