"""A handle on the process that holds a target; every campaign runs its work through it."""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Self

from omni_verify import settings as bounds
from omni_verify.campaign import case_job, isolation, wire
from omni_verify.campaign.environment import child_environment
from omni_verify.errors import OmniVerifyError, TargetUnusableError, UsageError
from omni_verify.harness.result import CaseResult
from omni_verify.harness.scenario import Scenario, get
from omni_verify.settings import Settings
from omni_verify.targets.protocol import TargetInfo

__all__ = ["Zygote"]

CLOSE_S = 10.0
"""Seconds that a closing zygote gets to kill its children and sweep before it is killed."""
RESOLVER = "omni_verify.targets:resolve"
CATALOGUE = "omni_verify.scenarios"

# The zygote ends itself that much later than its parent gives up: the parent says why.
_OWN_END_S = 5.0
# A slow scenario may take that many times the bound of a case before it is ended from outside.
_SLOW = 3


class Zygote:
    """One loaded target, from which each job is forked.

    Usable from any thread; jobs run in parallel. It promises that no process of it and no object
    of its prefixes is left after `close`, also when a job hangs or crashes, and that its process
    ends by itself when this one dies.

    Args:
        spec: target as the user names it.
        loader: ``"auto"``, ``"isolated"`` or ``"native"``.
        settings: bounds; from the environment when None.
        isolation: ``"auto"`` (a private mount namespace where permitted), ``"mount"`` or ``"prefix"``.
        namespace_of: pid whose mount namespace every job joins, for a sender and a receiver of
            different targets; 0 gives each job its own.
        resolver: ``module:function`` called as ``function(spec, loader=loader)``.
        catalogue: package of scenarios that is imported before the first job; empty for none.
        case_entry: job that plays one scenario.
    """

    def __init__(
        self,
        spec: str,
        loader: str = "auto",
        *,
        settings: Settings | None = None,
        isolation: str = "auto",
        namespace_of: int = 0,
        resolver: str = RESOLVER,
        catalogue: str = CATALOGUE,
        case_entry: str = case_job.ENTRY,
    ) -> None:
        self.spec, self.loader = spec, loader
        self.settings = settings or bounds.load()
        self.namespace_of, self.case_entry = namespace_of, case_entry
        self.prefix = f"ov{secrets.token_hex(4)}"
        self.isolation = isolation
        """What the jobs get (``"mount"`` or ``"prefix"``) after `start`; before, what was asked for."""
        self.isolation_reason = ""
        self._start = wire.Start(
            spec=spec,
            loader=loader,
            resolver=resolver,
            catalogue=catalogue,
            isolation=isolation,
            load_s=self.settings.load_s + _OWN_END_S,
        )
        self._info: TargetInfo | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._link: socket.socket | None = None
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[wire.Outcome]] = {}
        self._ended = ""
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the zygote

    @property
    def info(self) -> TargetInfo:
        """Name, version, loader and capabilities of the target; valid after `start`."""
        if self._info is None:
            raise RuntimeError("the zygote was not started")
        return self._info

    def start(self) -> TargetInfo:
        """Start the process, load the target and return what it is.

        Raises:
            UsageError: the spec names no target.
            TargetUnusableError: it cannot be fetched or loaded, or took longer than its bound.
        """
        near, far = socket.socketpair()
        with far:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "omni_verify.campaign.forkserver", str(far.fileno())],
                pass_fds=[far.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                env=child_environment(),
                start_new_session=True,  # Ctrl-C reaches the campaign alone, which then closes us in order
            )
        self._link = near
        weakref.finalize(self, near.close)  # a forgotten zygote ends by the end of file
        wire.send(near, self._start)
        try:
            self._expect(wire.Prepared, self.settings.fetch_s, "be fetched", "OMNI_VERIFY_FETCH_S")
            ready = self._expect(wire.Ready, self.settings.load_s, "load", "OMNI_VERIFY_LOAD_S")
        except BaseException:
            self.close()
            raise
        self._info, self.isolation, self.isolation_reason = ready.info, ready.isolation, ready.reason
        threading.Thread(target=self._read, name="omni-verify-zygote", daemon=True).start()
        return self.info

    def submit(
        self,
        entry: str,
        params: dict[str, object],
        *,
        limit_s: float,
        shm_options: str = "",
    ) -> Future[wire.Outcome]:
        """Run ``module:function(target, params, context) -> bytes`` in a forked child.

        Raises:
            TargetUnusableError: the zygote has ended.
        """
        future: Future[wire.Outcome] = Future()
        with self._lock:
            if self._link is None or self._ended:
                raise TargetUnusableError(self._ended or "the zygote is closed.")
            number = next(self._numbers)
            self._waiting[number] = future
            job = wire.Job(
                number=number,
                entry=entry,
                params=params,
                prefix=f"{self.prefix}x{number}-",
                shm_options=shm_options,
                limit_s=limit_s,
                namespace_of=self.namespace_of,
            )
            try:
                wire.send(self._link, job)
            except OSError:
                self._waiting.pop(number)
                raise TargetUnusableError(self._obituary()) from None
        return future

    def submit_case(self, scenario: Scenario, nemeses: Sequence[str] = ()) -> Future[CaseResult]:
        """Run one scenario; crash and hang are results, the future fails only if the zygote dies."""
        outcome = self.submit(
            self.case_entry,
            case_job.params(scenario, self.settings, nemeses),
            limit_s=self.settings.case_s * (_SLOW if scenario.slow else 1),
            shm_options=scenario.shm_options,
        )
        return _then(outcome, lambda done: self._finish(scenario, done))

    def run(self, scenario_id: str) -> CaseResult:
        """Run one scenario of the catalogue and wait for its result.

        Raises:
            UsageError: unknown scenario.
            TargetUnusableError: the zygote died.
        """
        return self.submit_case(get(scenario_id)).result()

    def close(self) -> None:
        """End every job and the process; sweep what its prefixes own. Safe to call twice."""
        with self._lock:
            link, self._link = self._link, None
        process = self._process
        if link is not None:
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)
        if process is not None:
            try:
                process.wait(CLOSE_S if self._info else 0.2)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            if self.isolation != "mount":
                isolation.sweep(self.prefix)
        if link is not None:
            link.close()
        self._log.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _expect(self, kind: type[Any], limit_s: float, verb: str, variable: str) -> Any:
        assert self._link is not None
        self._link.settimeout(limit_s)
        try:
            message = wire.receive(self._link)
        except TimeoutError:
            raise TargetUnusableError(
                f"the target {self.spec!r} did not {verb} within {limit_s:g} s; {variable} raises the bound."
            ) from None
        self._link.settimeout(None)
        if isinstance(message, wire.Refused):
            raise _as_error(message)
        if not isinstance(message, kind):
            raise TargetUnusableError(self._obituary())
        return message

    def _read(self) -> None:
        link = self._link
        while link is not None:
            try:
                message = wire.receive(link)
            except OSError:
                message = None
            if not isinstance(message, wire.Outcome):
                break
            with self._lock:
                future = self._waiting.pop(message.number, None)
            if future is not None:
                future.set_result(message)
        with self._lock:
            closing = self._link is None
            self._ended = "the zygote is closed." if closing else self._obituary()
            waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            future.set_exception(TargetUnusableError(self._ended))

    def _finish(self, scenario: Scenario, outcome: wire.Outcome) -> CaseResult:
        result = case_job.read(scenario, outcome)
        result.invariants = result.invariants or scenario.invariants
        loader = f" --loader {self.loader}" if self.loader != "auto" else ""
        target = f" --target '{self.spec}'" if self.spec != "reference" else ""
        result.replay = result.replay or f"omni-verify check{target}{loader} --select {scenario.id}"
        return result

    def _obituary(self) -> str:
        code = None
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self._process.wait(2)
        how = (
            f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit status {code}"
        )
        with contextlib.suppress(ValueError, OSError):
            self._log.seek(0)
            tail = self._log.read()[-2000:].decode(errors="replace").strip()
            return f"the process that holds the target {self.spec!r} ended ({how}).\n{tail}".rstrip()
        return f"the process that holds the target {self.spec!r} ended ({how})."


def _as_error(refused: wire.Refused) -> OmniVerifyError:
    for kind in (UsageError, TargetUnusableError):
        if kind.exit_code == refused.exit_code:
            return kind(refused.message)
    return OmniVerifyError(refused.message)


def _then(source: Future[wire.Outcome], function: Any) -> Future[CaseResult]:
    result: Future[CaseResult] = Future()

    def relay(done: Future[wire.Outcome]) -> None:
        try:
            result.set_result(function(done.result()))
        except BaseException as error:
            result.set_exception(error)

    source.add_done_callback(relay)
    return result
