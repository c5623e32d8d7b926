"""Runs in the processes of a pipeline under kill: stages that stop at named points until they may go on.

Names are replaced on the stage's own objects, as everywhere in the harness; the pipeline has no seam for it.
A stage announces a point to the driver and waits for its answer. When the driver is gone it goes on.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import queue
import signal
import threading
from collections.abc import Callable, Mapping
from functools import partial
from multiprocessing.connection import Client, Connection
from typing import Any

from omni_verify.contracts.keys import file_name, segment_path
from omni_verify.pipeline.stages.build import StageSpec, core_factory
from omni_verify.pipeline.stages.core import StageCore

__all__ = ["gated_core_factory", "serve_kills"]

_GATE_S = 90.0


class _Gate:
    """This process's connection to the driver; one point at a time."""

    def __init__(self, address: str, stage_id: int) -> None:
        self._lock = threading.Lock()
        self._pipe: Connection = Client(address, family="AF_UNIX")
        self._pipe.send(("stage", stage_id, os.getpid()))

    def reach(self, point: str, key: str) -> None:
        """Announce a point and wait until it may be passed, at most `_GATE_S`."""
        with self._lock, contextlib.suppress(OSError, EOFError):
            self._pipe.send(("at", point, key))
            if self._pipe.poll(_GATE_S):
                self._pipe.recv()


def gated_core_factory(address: str, spec: StageSpec) -> Callable[[bool], StageCore]:
    """Return a picklable factory of the stage, with gates that the driver at this address holds."""
    return partial(_build_gated, address, spec)


def _build_gated(address: str, spec: StageSpec, successor: bool) -> StageCore:  # noqa: FBT001 - a callback
    core = core_factory(spec)(successor)
    faulthandler.register(signal.SIGUSR1)
    gate = _Gate(address, spec.config.stage_id)
    add, abort, release, close = core.add, core.abort, core.release, core.close

    def announce(point: str, call: Callable[..., None], ids: Callable[[Any], str], argument: Any) -> None:
        gate.reach(point, ids(argument))
        call(argument)

    def closing() -> None:
        gate.reach("close", "")
        close()

    joined: Callable[[Any], str] = " ".join
    patched: Mapping[str, Any] = {
        "add": partial(announce, "add", add, lambda request: str(request.external_req_id)),
        "abort": partial(announce, "abort", abort, joined),
        "release": partial(announce, "release", release, joined),
        "close": closing,
    }
    for name, function in patched.items():
        setattr(core, name, function)
    if core.adapter is not None:
        _gate_connector(core.adapter.connector, gate)
    return core


def _gate_connector(connector: Any, gate: _Gate) -> None:
    put, get = connector.put, connector.get

    def gated_put(*args: Any, **kwargs: Any) -> Any:
        key = str(kwargs["put_key"])
        gate.reach("put.enter", key)
        result = put(*args, **kwargs)
        gate.reach("put.exit", key)
        return result

    def gated_get(from_stage: str, to_stage: str, get_key: str, *rest: Any) -> Any:
        # A receiver polls thousands of times a second; only a poll that would find something is a point.
        if os.path.exists(segment_path(file_name(get_key))):
            gate.reach("get.enter", get_key)
        return get(from_stage, to_stage, get_key, *rest)

    connector.put, connector.get = gated_put, gated_get


def serve_kills(address: str, scope: str) -> None:
    """Be the parent of a three-stage pipeline and do what the driver says until it closes the pipeline."""
    from omni_verify.pipeline.models import tokenizer
    from omni_verify.pipeline.orchestration import assembly
    from omni_verify.pipeline.orchestration.messages import ErrorMessage
    from omni_verify.pipeline.orchestration.pipeline import Pipeline
    from omni_verify.pipeline.serving.launch import LaunchOptions, load_configs

    setattr(assembly, "core_factory", partial(gated_core_factory, address))  # noqa: B010 - not typed as variable
    faulthandler.register(signal.SIGUSR1)
    pipe: Connection = Client(address, family="AF_UNIX")
    pipeline = Pipeline(load_configs(LaunchOptions()), mode="process", wakeup_scope=scope)
    reports: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
    reports.put(("server", os.getpid()))
    threading.Thread(target=_send_all, args=(pipe, reports), daemon=True).start()

    def sink(message: Any) -> None:
        if isinstance(message, ErrorMessage):
            reports.put(("failed", message.request_id, message.message))
        elif message.finished:
            reports.put(("done", message.request_id))

    while True:
        command, *arguments = pipe.recv()
        match command:
            case "submit":
                request_id, frames = arguments
                params = pipeline.params()
                for each in params:
                    each.extra_args["frames"] = frames
                prompt = tokenizer.chat_prompt([{"role": "user", "content": "Hello there, how are you?"}])
                pipeline.submit(request_id, {"prompt_token_ids": prompt}, params, sink)
            case "abort":
                pipeline.abort(arguments[0])
            case "rest":
                reports.put(("rest", pipeline.wait_quiescent(60.0)))
            case "close":
                pipeline.close()
                return


def _send_all(pipe: Connection, reports: queue.SimpleQueue[tuple[Any, ...]]) -> None:
    with contextlib.suppress(OSError):
        while True:
            pipe.send(reports.get())
