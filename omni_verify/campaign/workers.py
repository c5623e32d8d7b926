"""Who runs the shards of an exploration: children of one zygote, or tasks of a Ray cluster."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any, Protocol

import msgspec

from omni_verify.campaign import wire
from omni_verify.campaign.explore.program_target import RESOLVER, is_program
from omni_verify.campaign.zygote import Zygote
from omni_verify.errors import TargetUnusableError, UsageError
from omni_verify.targets.protocol import TargetInfo

__all__ = ["Workers", "local", "on_ray", "zygote_for"]


class Workers(Protocol):
    """Runs jobs against one target."""

    @property
    def info(self) -> TargetInfo:
        """The target."""

    @property
    def isolation(self) -> str:
        """What a job gets: ``"mount"`` or ``"prefix"``."""

    def submit(
        self, entry: str, params: dict[str, object], *, limit_s: float, shm_options: str = ""
    ) -> Future[wire.Outcome]:
        """Run ``module:function(target, params, context)`` in a fresh process."""


def zygote_for(spec: str, loader: str = "auto", isolation: str = "auto") -> Zygote:
    """The process that holds a target, or the module of a ``FILE.py:FUNCTION``; start it."""
    if is_program(spec):
        return Zygote(spec, isolation=isolation, resolver=RESOLVER, catalogue="")
    return Zygote(spec, loader, isolation=isolation)


@contextlib.contextmanager
def local(spec: str, loader: str = "auto", isolation: str = "auto") -> Iterator[Workers]:
    """Children of one zygote on this machine."""
    with zygote_for(spec, loader, isolation) as zygote:
        yield zygote


@contextlib.contextmanager
def on_ray(address: str, spec: str, loader: str, isolation: str, workers: int) -> Iterator[Workers]:
    """Tasks of a Ray cluster; each worker process of Ray holds a zygote of its own.

    Args:
        address: ``"local"`` starts a cluster in this machine's processes, else as `ray.init` takes it.

    Raises:
        UsageError: Ray is not installed.
        TargetUnusableError: the cluster cannot be reached.
    """
    try:
        import ray
    except ImportError as error:
        raise UsageError(
            f"--ray needs the package ray, which does not import here ({error}). "
            "Install the extra: pip install 'omni-verify[ray]'."
        ) from None
    options: dict[str, Any] = {"num_cpus": workers} if address == "local" else {"address": address}
    try:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR, **options)
    except Exception as error:
        raise TargetUnusableError(f"cannot use the Ray cluster {address!r}: {error}") from error
    try:
        yield _RayWorkers(ray, spec, loader, isolation)
    finally:
        ray.shutdown()


class _RayWorkers:
    def __init__(self, ray: Any, spec: str, loader: str, isolation: str) -> None:
        self._task = ray.remote(_on_worker).options(max_retries=0)
        self._where = (spec, loader, isolation)
        encoded = ray.get(ray.remote(_describe).remote(*self._where))
        self.info, self.isolation = msgspec.msgpack.decode(encoded, type=tuple[TargetInfo, str])

    def submit(
        self, entry: str, params: dict[str, object], *, limit_s: float, shm_options: str = ""
    ) -> Future[wire.Outcome]:
        answer: Future[wire.Outcome] = Future()

        def relay(done: Future[bytes]) -> None:
            try:
                answer.set_result(msgspec.msgpack.decode(done.result(), type=wire.Outcome))
            except Exception as error:
                answer.set_result(wire.Outcome(number=0, error=f"the Ray task failed: {error}"))

        self._task.remote(self._where, entry, params, limit_s, shm_options).future().add_done_callback(relay)
        return answer


_zygotes: dict[tuple[str, str, str], Zygote] = {}


def _held(where: tuple[str, str, str]) -> Zygote:
    """The zygote of this Ray worker process; it ends with the process."""
    if where not in _zygotes:
        zygote = zygote_for(*where)
        zygote.start()
        _zygotes[where] = zygote
    return _zygotes[where]


def _describe(spec: str, loader: str, isolation: str) -> bytes:
    zygote = _held((spec, loader, isolation))
    return msgspec.msgpack.encode((zygote.info, zygote.isolation))


def _on_worker(
    where: tuple[str, str, str], entry: str, params: dict[str, object], limit_s: float, shm_options: str
) -> bytes:
    outcome = _held(where).submit(entry, params, limit_s=limit_s, shm_options=shm_options).result()
    return msgspec.msgpack.encode(outcome)
