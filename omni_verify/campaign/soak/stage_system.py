"""The system of stage processes that a soak loads."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import wait
from pathlib import Path

import msgspec

from omni_verify import settings as bounds
from omni_verify.audit import shm
from omni_verify.campaign import isolation
from omni_verify.campaign.soak.launcher import Exited, LauncherOptions, Spawned
from omni_verify.campaign.soak.stage_links import StageLinks
from omni_verify.campaign.soak.stage_parent import StageParent
from omni_verify.campaign.soak.stage_shm import StageShm
from omni_verify.campaign.soak.system import Death
from omni_verify.errors import TargetUnusableError
from omni_verify.harness.soak.messages import (
    Abort,
    Forget,
    Inspect,
    Quiesce,
    Report,
    StageOptions,
    Stop,
    Submit,
)
from omni_verify.harness.soak.plan import Plan
from omni_verify.targets.protocol import TargetInfo

__all__ = ["StageSystem"]

_LOG_TAIL = 4000
_CLOSE_S = 15.0


class StageSystem:
    """One spawned process a stage, under one launcher, in a private /dev/shm where that is permitted.

    Args:
        options: the first stage's; each gets its own number.
        folder: for the logs of the stages.
    """

    def __init__(self, options: StageOptions, folder: Path) -> None:
        self.settings = bounds.load()
        self._options, self._folder = options, folder
        self._own = self._door = ""
        self.parts: Sequence[int] = tuple(range(options.stages))
        self.inspects = True
        self.prefix = options.prefix or f"ovs{secrets.token_hex(4)}-"
        self.isolation = options.isolation
        self.info = TargetInfo(name=options.spec)
        self._parent, self._links, self._shm = StageParent(), StageLinks(), StageShm(self.prefix)
        self._stage_pids: dict[int, int] = {}
        self._starting: set[int] = set()
        self._closing = False

    # -- life ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the launcher and every stage, and wait until all have loaded the target.

        Raises:
            UsageError, TargetUnusableError: as `omni_verify.targets.resolve`, or a stage did not come up.
        """
        _prepare(self._options.spec, self._options.loader)
        self.isolation, _ = isolation.choose(self._options.isolation)
        # No earlier: only the launcher removes it when the soak is killed.
        self._own = tempfile.mkdtemp(prefix="omni-verify-soak-")
        self._door = os.path.join(self._own, "link")
        self._links.open(self._door, len(self.parts))
        order = LauncherOptions(isolation=self.isolation, prefix=self.prefix, link=self._door)
        self._parent.start(order, self._folder / "launcher.log", self.settings.load_s)
        if self.isolation == "mount":
            self._shm.look_inside(self._parent.pid)
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
        self._shm.sweep_fifos()
        order = msgspec.structs.replace(
            self._options,
            stage=stage,
            prefix=self.prefix,
            isolation=self.isolation,
            link=self._door,
            log=str(self._log(stage)),
            load_s=self.settings.load_s,
        )
        self._starting.add(stage)
        self._parent.spawn(order)

    def signal(self, stage: int, number: int) -> int:
        """Send a signal to the process of a stage; return its pid, 0 when there is none."""
        pid = self._stage_pids.get(stage, 0)
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        return pid

    def close(self) -> list[str]:
        """Stop the stages in order, then list and sweep what they left; idempotent."""
        if self._closing:
            return []
        self._closing = True
        self._links.send(Stop(), self.parts)
        deadline = time.monotonic() + _CLOSE_S
        while self._stage_pids and time.monotonic() < deadline and self._parent.link is not None:
            self.poll(0.2)
        left = [e.name for e in self.shm().entries] if self._parent.link is not None else []
        self._links.close()
        self._parent.end()
        if self.isolation == "prefix":
            isolation.sweep(self.prefix)
        if self._own:
            shutil.rmtree(self._own, ignore_errors=True)
        return left

    # -- requests ------------------------------------------------------------------------------

    def submit(self, plans: list[Plan]) -> None:
        """Admit requests on every stage, the consumers first, so that they wait for what comes."""
        self._links.send(Submit(plans), tuple(reversed(self.parts)))

    def abort(self, indices: list[int], parts: Sequence[int], *, at_once: bool = False) -> None:
        """Tell stages that clients have left."""
        self._links.send(Abort(indices, at_once), parts)

    def forget(self, indices: list[int], *, release: bool = True) -> None:
        """Tell every stage that requests are over everywhere."""
        self._links.send(Forget(indices, release), self.parts)

    def quiesce(self, number: int) -> None:
        """Ask every stage to come to rest."""
        self._links.send(Quiesce(number), self.parts)

    def inspect(self, number: int, *, collect: bool = False, trim: bool = False) -> None:
        """Ask every stage for its figures."""
        self._links.send(Inspect(number, collect, trim), self.parts)

    def poll(self, timeout_s: float) -> list[tuple[int, Report | Death]]:
        """Wait for reports of stages and for deaths, at most so long."""
        links, parent = self._links, self._parent.link
        stages = {id(link): stage for stage, link in links.by_stage.items()}
        sources: list[object] = [links.door, *links.by_stage.values()]
        if parent is not None:
            sources.append(parent)
        events: list[tuple[int, Report | Death]] = []
        for ready in wait(sources, timeout_s):  # type: ignore[arg-type]
            if ready is links.door:
                events += self._welcome()
            elif ready is parent:
                events += self._hear_parent()
            else:
                stage = stages[id(ready)]
                events += [(stage, report) for report in links.read(stage, ready)]  # type: ignore[arg-type]
        return events

    # -- measures ------------------------------------------------------------------------------

    def pids(self) -> Mapping[str, int]:
        """Process ids by part: ``stage<k>``, and ``parent`` for the launcher."""
        found = {f"stage{stage}": pid for stage, pid in self._stage_pids.items()}
        if self._parent.pid:
            found["parent"] = self._parent.pid
        return found

    def shm(self) -> shm.Listing:
        """What lies in the stages' shared memory now; foreign names are those of a private one only."""
        return self._shm.listing()

    def sweep(self, label: str) -> tuple[str, ...]:
        """Remove what lies there of one request, as the parent of a killed stage does; return the names."""
        return self._shm.sweep(label)

    def sweep_journals(self) -> None:
        """Remove crash journals of dead senders."""
        self._shm.sweep_journals(self._stage_pids.values())

    # -- parts ---------------------------------------------------------------------------------

    def _log(self, stage: int) -> Path:
        return self._folder / f"stage{stage}.log"

    def _welcome(self) -> list[tuple[int, Report | Death]]:
        hello = self._links.accept()
        if hello is None:
            return []
        self._starting.discard(hello.stage)
        self.info = msgspec.msgpack.decode(hello.info, type=TargetInfo)
        return [(hello.stage, hello)]

    def _hear_parent(self) -> list[tuple[int, Report | Death]]:
        message = self._parent.receive()
        if message is None:
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
        events: list[tuple[int, Report | Death]] = [(stage, r) for r in self._links.read_last(stage)]
        if not self._closing:
            log = self._log(stage)
            tail = log.read_bytes()[-_LOG_TAIL:].decode(errors="replace") if log.exists() else ""
            events.append((stage, Death(stage=stage, pid=message.pid, code=message.code, log=tail)))
        return events


def _prepare(spec: str, loader: str) -> None:
    """Resolve and fetch in this process, so that a wrong name is a usage error and a fetch happens once."""
    import omni_verify.faults.mutants  # noqa: F401 - registers the variants of the reference
    from omni_verify.targets import resolve

    resolve(spec, loader=loader).prepare()
