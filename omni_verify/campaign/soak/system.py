"""What a soak loads: the protocol, and the system of stage processes."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Protocol

import msgspec

from omni_verify import settings as bounds
from omni_verify.audit import shm
from omni_verify.campaign import isolation
from omni_verify.campaign.soak.launcher import Exited, LauncherOptions, Ready, Spawned
from omni_verify.campaign.zygote import _environment as environment
from omni_verify.contracts.keys import OWNER_PATTERN, SHM_ROOT, wake_directory
from omni_verify.errors import TargetUnusableError
from omni_verify.harness.soak.messages import (
    Abort,
    Command,
    Forget,
    Hello,
    Inspect,
    Quiesce,
    Report,
    StageOptions,
    Stop,
    Submit,
    decode_report,
    encode,
)
from omni_verify.harness.soak.plan import Plan
from omni_verify.pipeline.stages.dead_fifos import remove_dead_fifos
from omni_verify.settings import Settings
from omni_verify.targets.protocol import TargetInfo

__all__ = ["Death", "SoakSystem", "StageSystem"]

_LOG_TAIL = 4000
_DUMP_S = 1.0
_CLOSE_S = 15.0
_Launched = msgspec.msgpack.Decoder(Ready | Spawned | Exited)


class Death(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the system has ended without being asked to.

    Attributes:
        stage: which one; -1 for the parent of all.
        pid: of the process that ended.
        code: exit status, negative for a signal.
        log: the end of what it wrote, stacks of a crash included.
    """

    stage: int
    pid: int
    code: int
    log: str = ""

    @property
    def how(self) -> str:
        """The end in words."""
        if self.code < 0:
            return f"killed by {signal.Signals(-self.code).name}"
        return f"ended itself with status {self.code}"


class SoakSystem(Protocol):
    """Something that takes requests for a long time and can be measured.

    Reports come from `poll` as (part number, report); a `Death` is one too.
    """

    info: TargetInfo
    isolation: str
    parts: Sequence[int]
    """Numbers of the parts that a request passes."""
    inspects: bool
    """Whether its parts answer `inspect`."""

    def start(self) -> None:
        """Bring it up; raises `TargetUnusableError`."""

    def submit(self, plans: list[Plan]) -> None:
        """Start requests."""

    def abort(self, indices: list[int], parts: Sequence[int], *, at_once: bool = False) -> None:
        """Tell parts that clients have left."""

    def forget(self, indices: list[int], *, release: bool = True) -> None:
        """Tell all parts that requests are over everywhere, and whether to release what they left."""

    def quiesce(self, number: int) -> None:
        """Ask all parts to come to rest and say so."""

    def inspect(self, number: int, *, collect: bool = False, trim: bool = False) -> None:
        """Ask all parts for their figures."""

    def poll(self, timeout_s: float) -> list[tuple[int, Report | Death]]:
        """Wait for reports, at most so long."""

    def pids(self) -> Mapping[str, int]:
        """Process ids by part name, for the sampler."""

    def signal(self, stage: int, number: int) -> int:
        """Send a signal to a part's process; return its pid, 0 when there is none."""

    def restart(self, stage: int) -> None:
        """Bring a part up again that has ended."""

    def sweep(self, label: str) -> tuple[str, ...]:
        """Remove what lies in shared memory of one request; return the names."""

    def sweep_journals(self) -> None:
        """Remove what parts that have ended noted for whoever cleans up behind them."""

    def shm(self) -> shm.Listing:
        """What lies in its shared memory now."""

    def close(self) -> list[str]:
        """End it in order; return the names that it left in shared memory."""


class StageSystem:
    """One spawned process a stage, under one launcher, in a private /dev/shm where that is permitted.

    Args:
        options: the first stage's; each gets its own number.
        folder: for the logs of the stages.
        settings: bounds.
    """

    def __init__(self, options: StageOptions, folder: Path | None, settings: Settings | None = None) -> None:
        self.settings = settings or bounds.load()
        self._options, self._own = options, tempfile.mkdtemp(prefix="omni-verify-soak-")
        self._folder = folder or Path(self._own)
        self.parts: Sequence[int] = tuple(range(options.stages))
        self.inspects = True
        self.prefix = options.prefix or f"ovs{secrets.token_hex(4)}-"
        self.isolation = options.isolation
        self.info = TargetInfo(name=options.spec)
        self._door = socket.socket(socket.AF_UNIX)
        self._launcher: subprocess.Popen[bytes] | None = None
        self._launch: Connection | None = None
        self._links: dict[int, Connection] = {}
        self._stage_pids: dict[int, int] = {}
        self._starting: dict[int, float] = {}
        self._closing = False

    # -- life ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the launcher and every stage, and wait until all have loaded the target.

        Raises:
            UsageError, TargetUnusableError: as `omni_verify.targets.resolve`, or a stage did not come up.
        """
        _prepare(self._options.spec, self._options.loader)
        self.isolation, _ = isolation.choose(self._options.isolation)
        self._door.bind(os.path.join(self._own, "link"))
        self._door.listen(len(self.parts))
        self._start_launcher()
        for stage in self.parts:
            self.restart(stage)
        deadline = time.monotonic() + self.settings.load_s
        while self._starting:
            for _, event in self.poll(0.2):
                if isinstance(event, Death):
                    raise TargetUnusableError(
                        f"stage {event.stage} of {self._options.spec!r} did not come up: it {event.how}.\n"
                        f"{event.log}"
                    )
            if time.monotonic() > deadline:
                raise TargetUnusableError(
                    f"the stages of {self._options.spec!r} did not load within {self.settings.load_s:g} s; "
                    "OMNI_VERIFY_LOAD_S raises the bound."
                )

    def restart(self, stage: int) -> None:
        """Spawn the process of a stage; first remove the FIFO of one that was killed, as its parent does."""
        assert self._launch is not None
        wake = os.path.basename(wake_directory(os.getuid(), 0, self.prefix))
        remove_dead_fifos(os.path.join(self.shm_root, wake))
        order = msgspec.structs.replace(
            self._options,
            stage=stage,
            prefix=self.prefix,
            isolation=self.isolation,
            link=os.path.join(self._own, "link"),
            log=str(self._log(stage)),
            load_s=self.settings.load_s,
        )
        self._starting[stage] = time.monotonic()
        self._launch.send_bytes(msgspec.msgpack.encode(order))

    def signal(self, stage: int, number: int) -> int:
        """Send a signal to the process of a stage; return its pid, 0 when there is none."""
        pid = self._stage_pids.get(stage, 0)
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        return pid

    def stacks(self, stage: int) -> str:
        """Ask a stage for the stacks of all its threads; empty when it does not answer in time."""
        path = self._log(stage)
        before = path.stat().st_size if path.exists() else 0
        self.signal(stage, signal.SIGUSR1)
        deadline = time.monotonic() + _DUMP_S
        text = ""
        while time.monotonic() < deadline:
            text = path.read_bytes()[before:].decode(errors="replace") if path.exists() else ""
            if text.endswith("\n") and "most recent call first" in text:
                break
            time.sleep(0.05)
        return text[-_LOG_TAIL:]

    def close(self) -> list[str]:
        """Stop the stages in order, then list and sweep what they left; idempotent."""
        if self._closing:
            return []
        self._closing = True
        self._send(Stop(), self.parts)
        deadline = time.monotonic() + _CLOSE_S
        while self._stage_pids and time.monotonic() < deadline and self._launch is not None:
            self.poll(0.2)
        left = [e.name for e in self.shm().entries] if self._launch is not None else []
        for link in (*self._links.values(), self._launch):
            if link is not None:
                link.close()
        self._launch = None
        if self._launcher is not None:
            try:
                self._launcher.wait(_CLOSE_S)
            except subprocess.TimeoutExpired:
                self._launcher.kill()
                self._launcher.wait()
        if self.isolation == "prefix":
            isolation.sweep(self.prefix)
        self._door.close()
        shutil.rmtree(self._own, ignore_errors=True)
        return left

    # -- requests ------------------------------------------------------------------------------

    def submit(self, plans: list[Plan]) -> None:
        """Admit requests on every stage, the consumers first, so that they wait for what comes."""
        self._send(Submit(plans), tuple(reversed(self.parts)))

    def abort(self, indices: list[int], parts: Sequence[int], *, at_once: bool = False) -> None:
        """Tell stages that clients have left."""
        self._send(Abort(indices, at_once), parts)

    def forget(self, indices: list[int], *, release: bool = True) -> None:
        """Tell every stage that requests are over everywhere."""
        self._send(Forget(indices, release), self.parts)

    def quiesce(self, number: int) -> None:
        """Ask every stage to come to rest."""
        self._send(Quiesce(number), self.parts)

    def inspect(self, number: int, *, collect: bool = False, trim: bool = False) -> None:
        """Ask every stage for its figures."""
        self._send(Inspect(number, collect, trim), self.parts)

    def poll(self, timeout_s: float) -> list[tuple[int, Report | Death]]:
        """Wait for reports of stages and for deaths, at most so long."""
        sources: list[object] = [self._door, *self._links.values()]
        if self._launch is not None:
            sources.append(self._launch)
        stages = {id(link): stage for stage, link in self._links.items()}
        events: list[tuple[int, Report | Death]] = []
        for ready in wait(sources, timeout_s):  # type: ignore[arg-type]
            if ready is self._door:
                events += self._accept()
            elif ready is self._launch:
                events += self._launched()
            else:
                events += self._read(stages[id(ready)], ready)  # type: ignore[arg-type]
        return events

    # -- measures ------------------------------------------------------------------------------

    def pids(self) -> Mapping[str, int]:
        """Process ids by part: ``stage<k>``, and ``parent`` for the launcher."""
        found = {f"stage{stage}": pid for stage, pid in self._stage_pids.items()}
        if self._launcher is not None:
            found["parent"] = self._launcher.pid
        return found

    @property
    def shm_root(self) -> str:
        """Where this process sees the stages' /dev/shm."""
        if self.isolation == "mount" and self._launcher is not None:
            return f"/proc/{self._launcher.pid}/root{SHM_ROOT}"
        return SHM_ROOT

    def shm(self) -> shm.Listing:
        """What lies in the stages' shared memory now; foreign names are those of a private one only."""
        try:
            return shm.scan(self.prefix, self.shm_root)
        except OSError:
            return shm.Listing(prefix=self.prefix)

    def sweep(self, label: str) -> tuple[str, ...]:
        """Remove what lies there of one request, as the parent of a killed stage does; return the names."""
        return shm.sweep(f"{self.prefix}{label}_", self.shm_root)

    def sweep_journals(self) -> None:
        """Remove crash journals of dead senders; nobody reads at a quiescent point, so nothing needs them."""
        for entry in self.shm().select("owner"):
            found = OWNER_PATTERN.fullmatch(os.path.basename(entry.name))
            if found and int(found["pid"]) not in self._stage_pids.values():
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(self.shm_root, entry.name))

    # -- parts ---------------------------------------------------------------------------------

    def _log(self, stage: int) -> Path:
        return self._folder / f"stage{stage}.log"

    def _start_launcher(self) -> None:
        near, far = socket.socketpair()
        order = LauncherOptions(
            isolation=self.isolation, prefix=self.prefix, link=os.path.join(self._own, "link")
        )
        with far, (self._folder / "launcher.log").open("ab") as log:
            self._launcher = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "omni_verify.campaign.soak.launcher",
                    str(far.fileno()),
                    msgspec.json.encode(order).decode(),
                ],
                pass_fds=[far.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(),
                start_new_session=True,  # Ctrl-C reaches the soak alone, which ends its stages in order
            )
        self._launch = Connection(near.detach())
        if not self._launch.poll(self.settings.load_s) or not self._is_ready():
            self._launch.close()
            self._launch = None
            tail = (self._folder / "launcher.log").read_text(errors="replace")[-_LOG_TAIL:]
            raise TargetUnusableError(f"the parent of the stages did not come up.\n{tail}")

    def _is_ready(self) -> bool:
        assert self._launch is not None
        try:
            return isinstance(_Launched.decode(self._launch.recv_bytes()), Ready)
        except (EOFError, OSError):
            return False

    def _accept(self) -> list[tuple[int, Report | Death]]:
        link = Connection(self._door.accept()[0].detach())
        try:
            hello = decode_report(link.recv_bytes())
        except (EOFError, OSError):
            link.close()
            return []
        assert isinstance(hello, Hello)
        self._links[hello.stage] = link
        self._starting.pop(hello.stage, None)
        self.info = msgspec.msgpack.decode(hello.info, type=TargetInfo)
        return [(hello.stage, hello)]

    def _launched(self) -> list[tuple[int, Report | Death]]:
        assert self._launch is not None
        try:
            message = _Launched.decode(self._launch.recv_bytes())
        except (EOFError, OSError):
            self._launch.close()
            self._launch = None
            self._stage_pids.clear()
            return [(-1, Death(stage=-1, pid=0, code=1, log="the parent of the stages is gone"))]
        if isinstance(message, Spawned):
            self._stage_pids[message.stage] = message.pid
        elif isinstance(message, Exited):
            return self._died(message)
        return []

    def _died(self, message: Exited) -> list[tuple[int, Report | Death]]:
        stage = message.stage
        self._stage_pids.pop(stage, None)
        events: list[tuple[int, Report | Death]] = []
        if (link := self._links.get(stage)) is not None:
            while stage in self._links and link.poll(0):  # what it said before it ended
                events += self._read(stage, link)
        self._drop(stage)
        if not self._closing:
            log = self._log(stage)
            tail = log.read_bytes()[-_LOG_TAIL:].decode(errors="replace") if log.exists() else ""
            events.append((stage, Death(stage=stage, pid=message.pid, code=message.code, log=tail)))
        return events

    def _read(self, stage: int, link: Connection) -> list[tuple[int, Report | Death]]:
        try:
            return [(stage, decode_report(link.recv_bytes()))]
        except (EOFError, OSError):
            self._drop(stage)  # the launcher says how it ended
            return []

    def _drop(self, stage: int) -> None:
        link = self._links.pop(stage, None)
        if link is not None:
            link.close()

    def _send(self, command: Command, parts: Sequence[int]) -> None:
        body = encode(command)
        for stage in parts:
            link = self._links.get(stage)
            if link is not None:
                try:
                    link.send_bytes(body)
                except OSError:
                    self._drop(stage)


def _prepare(spec: str, loader: str) -> None:
    """Resolve and fetch in this process, so that a wrong name is a usage error and a fetch happens once."""
    import omni_verify.faults.mutants  # noqa: F401 - registers the variants of the reference
    from omni_verify.targets import resolve

    resolve(spec, loader=loader).prepare()
