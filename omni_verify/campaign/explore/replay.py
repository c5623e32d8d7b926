"""Run one recorded schedule again, shrink it, and say which program it belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from omni_verify.campaign import wire
from omni_verify.campaign.explore import besieged
from omni_verify.campaign.explore import job as explore_job
from omni_verify.campaign.explore.exploration import FailureRecord, Plan
from omni_verify.campaign.explore.job import Replayed, name_of
from omni_verify.campaign.explore.merge import distinct
from omni_verify.campaign.explore.program_target import is_program
from omni_verify.campaign.fuzz import token as fuzz_token
from omni_verify.campaign.workers import zygote_for
from omni_verify.campaign.zygote import CATALOGUE, Zygote
from omni_verify.engine import token as tokens
from omni_verify.engine.schedule import Schedule, fingerprint
from omni_verify.errors import OmniVerifyError, UsageError
from omni_verify.harness.scenario import catalogue, load_catalogue

__all__ = [
    "Located",
    "ReplayReport",
    "arguments_of",
    "ask",
    "family_of",
    "locate",
    "minimize",
    "replay",
    "replay_in",
]

T = TypeVar("T")
FAMILIES = ("reference", "vllm-omni")
LIMIT_S = 300.0
"""Seconds after which a replay or a minimisation is ended from outside."""


class Located(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded schedule and the program that it was recorded on.

    Attributes:
        spec: what to load: a target, or ``FILE.py:FUNCTION``.
        program: scenario id, or ``FILE.py:FUNCTION``.
        recorded: the failure, when a file was given.
    """

    token: str
    spec: str
    program: str
    family: str = ""
    instrument: tuple[str, ...] = ()
    recorded: FailureRecord | None = None


class ReplayReport(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of `replay`: ``VIOLATED``, ``FIXED``, ``DIVERGED`` or ``ERROR``."""

    schema: Literal["omni-verify/replay/1"] = "omni-verify/replay/1"
    outcome: str
    token: str
    program: str
    target: str = ""
    by_name: bool = False
    answer: Replayed

    @property
    def exit_code(self) -> int:
        """1 when the failure shows again, 0 when it is fixed, else 3."""
        return {"VIOLATED": 1, "FIXED": 0}.get(self.outcome, 3)


def locate(
    token_or_file: str, target: str | None = None, program: str = "", instrument: Sequence[str] = ()
) -> Located:
    """Find out what a token was recorded on.

    Args:
        token_or_file: a token, or a file with a failure (as the run store keeps it) or with a token alone.
        target: for a scenario; needed when the schedule was recorded on a release.
        program: ``FILE.py:FUNCTION``, for a schedule of a function.

    Raises:
        UsageError: it is no token, or was recorded on another program or family of targets.
    """
    token, recorded = _read(token_or_file)
    fuzzed, token = fuzz_token.split(token)
    nemeses, token = besieged.split(token)
    schedule = tokens.decode(token)
    if fuzzed:
        family = family_of(target or "reference")
        tokens.check_program(schedule, name_of(fuzzed, family))
        return Located(
            token=token, spec=target or "reference", program=fuzzed, family=family, recorded=recorded
        )
    if recorded is not None and is_program(recorded.program):
        program, instrument = program or recorded.program, instrument or recorded.instrument
    if program:
        tokens.check_program(schedule, name_of(program, ""))
        return Located(
            token=token, spec=program, program=program, instrument=tuple(instrument), recorded=recorded
        )
    load_catalogue(CATALOGUE)
    scenario, family = _scenario_of(schedule, family_of(target) if target else "", nemeses)
    if target is None and family != "reference":
        raise UsageError(
            f"the schedule was recorded on {family} ({scenario}): say which release to replay it on, "
            f"for example --target '{family}==VERSION'."
        )
    if target is not None and family_of(target) != family:
        raise UsageError(
            f"the schedule was recorded on another program: expected a target of the family {family!r} "
            f"({scenario}), got {target!r}. Its choices mean nothing there; explore that target instead."
        )
    return Located(
        token=token, spec=target or "reference", program=scenario, family=family, recorded=recorded
    )


def family_of(target: str) -> str:
    """Family of a target spec: ``vllm-omni`` of ``vllm-omni==0.30.0``."""
    return target.partition("==")[0].partition("@")[0]


def _read(token_or_file: str) -> tuple[str, FailureRecord | None]:
    path = Path(token_or_file)
    versions = tuple(f"{v}." for v in (tokens.VERSION, fuzz_token.VERSION, besieged.VERSION))
    if token_or_file.startswith(versions) or not path.is_file():
        return token_or_file.strip(), None
    text = path.read_bytes()
    if not text.lstrip().startswith(b"{"):
        return text.decode(errors="replace").strip(), None
    try:
        recorded = msgspec.json.decode(text, type=FailureRecord)
    except msgspec.MsgspecError as error:
        raise UsageError(f"{token_or_file!r} is no recorded failure: {error}.") from None
    return recorded.token, recorded


def _scenario_of(schedule: Schedule, family: str, nemeses: tuple[str, ...]) -> tuple[str, str]:
    for name in dict.fromkeys((*filter(None, (family,)), *FAMILIES)):
        for program in (besieged.name(scenario, nemeses) for scenario in catalogue()):
            if fingerprint(name_of(program, name)) == schedule.program:
                return program, name
    raise UsageError(
        f"the schedule was recorded on another program: no scenario of this catalogue has the fingerprint "
        f"{schedule.program:08x}. If it is of a function, name it: --program FILE.py:FUNCTION."
    )


def replay(
    token_or_file: str,
    *,
    target: str | None = None,
    program: str = "",
    times: int = 1,
    carrier: str = "greenlet",
    instrument: Sequence[str] = (),
    loader: str = "auto",
    isolation: str = "auto",
) -> ReplayReport:
    """Run a recorded schedule again, `times` times.

    Args:
        token_or_file, target, program, instrument: as `locate`.
        carrier: ``greenlet`` or ``thread``; the trace is the same.

    Raises:
        UsageError: see `locate`.
        TargetUnusableError: the target cannot be used.
    """
    if times < 1:
        raise UsageError(f"--times must be at least 1, got {times}.")
    where = locate(token_or_file, target, program, instrument)
    with zygote_for(where.spec, loader, isolation) as zygote:
        return replay_in(zygote, where, times=times, carrier=carrier)


def replay_in(zygote: Zygote, where: Located, *, times: int = 1, carrier: str = "greenlet") -> ReplayReport:
    """As `replay`, in a process that holds the target already."""
    arguments: dict[str, object] = {
        **arguments_of(where),
        "times": times,
        "carrier": carrier,
    }
    answer = ask(zygote, where, explore_job.REPLAY, arguments, Replayed)
    by_name = False
    if answer.outcome == "DIVERGED" and where.recorded is not None and where.recorded.named:
        named = ask(zygote, where, explore_job.REPLAY, {**arguments, "named": where.recorded.named}, Replayed)
        if named.outcome in ("VIOLATED", "FIXED"):
            answer, by_name = named, True
    outcome = answer.outcome if len(set(answer.outcomes)) == 1 else "ERROR"
    return ReplayReport(
        outcome=outcome,
        token=where.token,
        program=where.program,
        target=f"{zygote.info.name} {zygote.info.version}".strip() if where.family else "",
        by_name=by_name,
        answer=answer,
    )


def minimize(
    token_or_file: str,
    *,
    target: str | None = None,
    program: str = "",
    instrument: Sequence[str] = (),
    loader: str = "auto",
    isolation: str = "auto",
) -> FailureRecord | None:
    """Shrink a recorded schedule; None when the failure does not show any more.

    Raises:
        UsageError: see `locate`.
        TargetUnusableError: the target cannot be used.
    """
    where = locate(token_or_file, target, program, instrument)
    with zygote_for(where.spec, loader, isolation) as zygote:
        found = ask(zygote, where, explore_job.SHRINK, arguments_of(where), list[FailureRecord])
    return distinct(found, where.spec)[0] if found else None


def arguments_of(where: Located) -> dict[str, object]:
    """What a job of `explore.job` needs to run the schedule again."""
    schedule = tokens.decode(where.token)
    plan = Plan(
        granularity=schedule.granularity, early_timers=schedule.early_timers, instrument=where.instrument
    )
    return {"plan": msgspec.to_builtins(plan), "token": where.token, "program": where.program}


def ask(zygote: Zygote, where: Located, entry: str, arguments: dict[str, object], kind: type[T]) -> T:
    scenario = catalogue().get(besieged.parts(where.program)[0])
    outcome: wire.Outcome = zygote.submit(
        entry, arguments, limit_s=LIMIT_S, shm_options=scenario.shm_options if scenario else ""
    ).result()
    if outcome.payload is None:
        last = (outcome.error or outcome.output or "no answer").strip().splitlines()[-1]
        message = last.partition("UsageError: ")[2]
        if message:
            raise UsageError(message)
        raise OmniVerifyError(f"the replay of {where.program} failed: {last}")
    return msgspec.msgpack.decode(outcome.payload, type=kind)
