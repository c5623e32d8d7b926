"""Mixed pairs: the sender of one target feeds the receiver of another, each in its own process.

A release and its neighbour meet in every rolling upgrade, and the reference claims vllm-omni's keys,
lock protocol and wire format: here each ordered pair has to show it. One zygote holds each target; a
case forks one child of the sender's and one of the receiver's, so a crash of either is a finding of
that case and the next case starts from fresh processes. All of them see one private /dev/shm.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future

import msgspec

from omni_verify import settings as bounds
from omni_verify.campaign import events, isolation, result, wire
from omni_verify.campaign.check import NothingSelectedError
from omni_verify.campaign.pairs import worker as pair_worker
from omni_verify.campaign.pairs.judge import CASES, Judge, PairCase
from omni_verify.campaign.pairs.link import Relay
from omni_verify.campaign.pairs.worker import RECEIVER, SENDER, EndOrder
from omni_verify.campaign.result import RunResult
from omni_verify.campaign.zygote import Zygote
from omni_verify.errors import TargetUnusableError, UsageError
from omni_verify.harness.result import CaseResult
from omni_verify.settings import Settings
from omni_verify.targets.protocol import TargetInfo

__all__ = ["DEFAULT_TARGETS", "pair_cases", "pairs"]

DEFAULT_TARGETS = ("reference", "vllm-omni==0.26.0", "vllm-omni==0.28.0", "vllm-omni==0.30.0")
"""The reference and the releases that it claims to work with."""
_HOLDER = (
    "import sys; sys.path[:] = {path!r}\n"
    "from omni_verify.audit import namespace; namespace.enter()\n"
    "print('ready', flush=True); sys.stdin.read()"
)


def pair_cases(targets: Sequence[str], select: Sequence[str] = ()) -> list[PairCase]:
    """Return the cases of every ordered pair that the globs select; none selects all.

    A glob is compared as plain text first, because the ids contain brackets.

    Raises:
        UsageError: no target, or the same one twice.
        NothingSelectedError: the globs match nothing.
    """
    if not targets:
        raise UsageError("pairs needs at least one --target.")
    twice = {spec for spec in targets if list(targets).count(spec) > 1}
    if twice:
        raise UsageError(
            f"the target {min(twice)!r} is given twice; each target is paired with itself anyway."
        )
    everything = [PairCase(name, s, r) for name in CASES for s in targets for r in targets]
    chosen = [
        case
        for case in everything
        if not select or any(case.id == glob or fnmatch.fnmatchcase(case.id, glob) for glob in select)
    ]
    if not chosen:
        raise NothingSelectedError(
            f"no pair matches {', '.join(map(repr, select))}; an id reads like {everything[0].id}. "
            f"The cases are: {', '.join(CASES)}."
        )
    return chosen


def pairs(
    targets: Sequence[str] = DEFAULT_TARGETS,
    select: Sequence[str] = (),
    *,
    loader: str = "auto",
    isolation_mode: str = "auto",
    settings: Settings | None = None,
    emit: events.Emit = lambda event: None,
    zygote: Callable[..., Zygote] = Zygote,
    entry: str = pair_worker.ENTRY,
) -> RunResult:
    """Run every ordered pair of targets, sender and receiver in two processes, and return the result.

    Args:
        targets: specs, each once; every one is sender to every one.
        select: globs over case ids such as ``"pair/stream*"``; none selects all.
        loader: how vllm-omni is imported; the reference has only one way.
        isolation_mode: ``"auto"``, ``"mount"`` or ``"prefix"``.
        settings: bounds; from the environment when None.
        emit: receives the events of `campaign.events`.
        zygote: builds the process that holds a target.
        entry: job that plays one end.

    Raises:
        UsageError: bad target or option.
        NothingSelectedError: the selection is empty.
        TargetUnusableError: a target cannot be had or loaded, or its process died.
    """
    began, started = time.monotonic(), result.utc_now()
    cases = pair_cases(targets, select)
    used = [spec for spec in targets if any(spec in (c.sender, c.receiver) for c in cases)]
    limits = settings or bounds.load()
    mode, reason = isolation.choose(isolation_mode)
    with contextlib.ExitStack() as stack:
        namespace_of = stack.enter_context(_private_field()) if mode == "mount" else 0
        prefixes: list[str] = []
        stack.callback(_sweep, prefixes)  # when every zygote has closed: nobody can leave anything any more
        held: dict[str, Zygote] = {}
        for spec in used:
            way = loader if spec.startswith("vllm-omni") else "auto"
            emit(events.TargetLoading(spec=spec, loader=way))
            one = zygote(spec, way, settings=limits, isolation=mode, namespace_of=namespace_of)
            held[spec] = stack.enter_context(one)
        info = _info(held)
        emit(
            events.RunStarted(
                command="pairs",
                target=info,
                isolation=mode,
                isolation_reason=reason,
                cases=tuple(c.id for c in cases),
                jobs=1,
            )
        )
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="omni-verify-pairs-"))
        done, interrupted = _Run(held, folder, limits, entry, prefixes).all(cases, emit)
    finished = RunResult(
        command="pairs",
        target=info,
        verdict=result.run_verdict(done, complete=not interrupted),
        started=started,
        duration_s=round(time.monotonic() - began, 3),
        cases=tuple(result.record_of(c) for c in sorted(done, key=lambda c: c.id)),
        residue=result.union([c.residue for c in done]),
        isolation=mode,
        interrupted=interrupted,
    )
    emit(events.RunFinished(result=finished))
    return finished


class _Run:
    """Plays cases one at a time: two processes are at work in each."""

    def __init__(
        self,
        held: dict[str, Zygote],
        folder: str,
        settings: Settings,
        entry: str,
        prefixes: list[str],
    ) -> None:
        self._held, self._folder, self._settings, self._entry = held, folder, settings, entry
        self._prefixes = prefixes
        self._judge = Judge()

    def all(self, cases: Sequence[PairCase], emit: events.Emit) -> tuple[list[CaseResult], str]:
        """Play every case; return the results and what interrupted them."""
        done: list[CaseResult] = []
        try:
            for case in sorted(
                cases, key=lambda c: not c.own
            ):  # own pairs are what mixed ones are held against
                emit(events.CaseStarted(id=case.id))
                for own in self._judge.needs(case):
                    self._judge.result(own, *self._play(own))
                outcome = self._judge.result(case, *self._play(case))
                done.append(outcome)
                emit(events.CaseFinished(case=outcome))
        except KeyboardInterrupt as stop:
            return done, str(stop) or "SIGINT"
        return done, ""

    def _play(self, case: PairCase) -> tuple[wire.Outcome, wire.Outcome]:
        """Run both ends of one case and wait for both."""
        number = len(self._prefixes) + 1
        prefix = f"{self._held[case.sender].prefix}p{number}-"
        self._prefixes.append(prefix)
        with Relay(os.path.join(self._folder, str(number))) as relay:
            ends = [
                self._submit(spec, case.name, role, relay.path, prefix)
                for spec, role in ((case.sender, SENDER), (case.receiver, RECEIVER))
            ]
            relay.carry(lambda: any(end.done() for end in ends), self._settings.case_s)
            sender, receiver = (end.result() for end in ends)
            return sender, receiver

    def _submit(self, spec: str, case: str, role: str, link: str, prefix: str) -> Future[wire.Outcome]:
        order = EndOrder(case=case, role=role, link=link, prefix=prefix, settings=self._settings)
        return self._held[spec].submit(self._entry, msgspec.to_builtins(order), limit_s=self._settings.case_s)


def _sweep(prefixes: Sequence[str]) -> None:
    """Remove what the run left; in a private /dev/shm there is nothing of it to be seen from here."""
    for prefix in prefixes:
        isolation.sweep(prefix)


@contextlib.contextmanager
def _private_field() -> Iterator[int]:
    """Hold a mount namespace with an own tmpfs on /dev/shm; yield the pid that its members join.

    The holder ends by the end of its standard input, also when this process is killed.
    """
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDER.format(path=sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    with holder:
        assert holder.stdout is not None
        if holder.stdout.readline() != b"ready\n":
            raise TargetUnusableError(
                "the process that holds the private /dev/shm did not start; use --isolation prefix."
            )
        try:
            yield holder.pid
        finally:
            holder.communicate()


def _info(held: dict[str, Zygote]) -> TargetInfo:
    """Describe all targets of the run as the one that a result names."""
    infos = [zygote.info for zygote in held.values()]
    return TargetInfo(
        name="pairs of " + ", ".join(f"{i.name} {i.version}".strip() for i in infos),
        loader=", ".join(dict.fromkeys(i.loader for i in infos)),
        capabilities=tuple(sorted(set.intersection(*(set(i.capabilities) for i in infos)))),
    )
