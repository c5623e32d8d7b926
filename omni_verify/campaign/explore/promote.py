"""Keep a found schedule: as a scripted scenario, or as a regression test of a function."""

from __future__ import annotations

import itertools
import re
import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from omni_verify.campaign import wire
from omni_verify.campaign.explore import job as explore_job
from omni_verify.campaign.explore.exploration import Row
from omni_verify.campaign.explore.program_target import is_program
from omni_verify.campaign.explore.replay import Located, arguments_of, ask, locate
from omni_verify.campaign.workers import zygote_for
from omni_verify.campaign.zygote import Zygote
from omni_verify.errors import OmniVerifyError, UsageError
from omni_verify.harness.result import CaseResult
from omni_verify.harness.scenario import Scenario, catalogue
from omni_verify.settings import Settings
from omni_verify.targets.protocol import Target
from omni_verify.verdict import Finding

__all__ = ["NotReproducedError", "Promoted", "boundaries", "follow", "promote"]

FOLLOW = f"{__name__}:follow"
GATE_S = 3.0
"""Seconds that an actor waits at a gate while orders are tried out."""
LIMIT_S = 60.0
MAX_TRIALS = 12
"""Runs that are spent on orders that cannot all be had on real threads."""
CONFIRMATIONS = 3
"""Runs on real threads in which an order must show the failure before it is kept."""
_UNSTABLE = ("idle.", "reap.", "poll.", "tick.", "actor.", "load.", "ser.", "deser.", "deliver", "mark")
_EPILOGUE = ("close.", "shutdown.")


class NotReproducedError(OmniVerifyError):
    """The schedule cannot be kept: it does not fail, or no order of named points shows it (exit code 3)."""

    exit_code = 3


class Promoted(msgspec.Struct, frozen=True, kw_only=True):
    """The text of a file that keeps a schedule.

    Attributes:
        id: scenario id, or name of the test function.
        chains: orders over named points; empty for a function.
        text: Python source.
    """

    id: str
    text: str
    chains: tuple[str, ...] = ()


def promote(
    token_or_file: str,
    *,
    target: str | None = None,
    program: str = "",
    instrument: Sequence[str] = (),
    loader: str = "auto",
    isolation: str = "auto",
) -> Promoted:
    """Turn a recorded schedule into source text that shows the same violation.

    For a scenario the order is taken from the minimised trace and tried on real threads.

    Raises:
        UsageError: see `replay.locate`; or the schedule is of a fuzzed program, or has nemeses.
        NotReproducedError: the schedule does not fail any more, or no order of named points shows it.
        TargetUnusableError: the target cannot be used.
    """
    where = locate(token_or_file, target, program, instrument)
    if not is_program(where.program) and where.program not in catalogue():
        raise UsageError(
            "a schedule with nemeses, or of a fuzzed program, has no scenario to be kept as; keep its token."
        )
    with zygote_for(where.spec, loader, isolation) as zygote:
        arguments = {**arguments_of(where), "carrier": "greenlet"}
        answer = ask(zygote, where, explore_job.REPLAY, arguments, explore_job.Replayed)
        if answer.outcome != "VIOLATED":
            raise NotReproducedError(
                f"the schedule is not kept: it was to show its failure again and was {answer.outcome}."
            )
        if is_program(where.program):
            return _test_of(where, answer.message)
        if not answer.findings:
            raise NotReproducedError(
                f"a {answer.message.partition(':')[0]} has no order of named points to keep; "
                "replay it by its token instead."
            )
        chains = _enough(zygote, where, answer.findings, boundaries(answer.events))
    return _scenario_of(where, answer.findings, chains)


def boundaries(events: Sequence[Row]) -> list[str]:
    """Orders ``"a < b"`` at every switch between actors, over points that a rerun reaches as often.

    A receive thread is never held inside a get: it has the key's lock there, and its sender waits for it.
    """
    seen: Counter[tuple[str, str, str]] = Counter()
    kept: list[tuple[str, str, bool]] = []
    for event in events:
        if event.point.startswith(_EPILOGUE):
            break
        place = (event.actor, event.point, event.key)
        seen[place] += 1
        released = event.key.endswith("_")  # a range that the epilogue gives back
        polled = event.point.startswith(("get.", "lock.", "seg.open")) and event.actor.endswith(".recv")
        if event.point.startswith(_UNSTABLE) or polled or released or event.actor == "main":
            continue
        nth = f"#{seen[place]}" if seen[place] > 1 else ""
        holdable = not (event.actor.endswith(".recv") and event.point.startswith("seg."))
        kept.append((event.actor, f"{event.actor}:{event.point}({event.key}){nth}", holdable))
    return [
        f"{a} < {b}"
        for (first, a, _), (second, b, holdable) in itertools.pairwise(kept)
        if first != second and holdable
    ]


def follow(target: Target, arguments: dict[str, Any], context: wire.JobContext) -> bytes:
    """Run a scenario's program under other orders in this process; return the encoded `CaseResult`."""
    from omni_verify.harness.case import run_case

    chains = tuple(arguments["chains"])
    scenario = Scenario(
        id="promoted/trial",
        program=lambda s: s.follow(arguments["program"], *chains),
        story="a trial",
        invariants=tuple(arguments["invariants"]),
        source="explore",
    )
    settings = Settings(gate_s=GATE_S)
    result = run_case(target, scenario, settings=settings, prefix=context.prefix, isolation=context.isolation)
    return msgspec.msgpack.encode(result)


def _enough(
    zygote: Zygote, where: Located, findings: Sequence[Finding], chains: list[str]
) -> tuple[str, ...]:
    """The orders, if they show the first finding on real threads; else all but one of them.

    Not reduced further: without them the race shows only now and then.
    """
    wanted = findings[0]

    def shows(tried: Sequence[str]) -> bool:
        arguments: dict[str, object] = {
            "program": where.program,
            "chains": list(tried),
            "invariants": [wanted.invariant],
        }
        case = msgspec.msgpack.decode(
            zygote.submit(FOLLOW, arguments, limit_s=LIMIT_S).result().payload or b"\xc0",
            type=CaseResult | None,
        )
        return case is not None and any(
            (f.invariant, f.message) == (wanted.invariant, wanted.message) for f in case.findings
        )

    candidates = [chains, *([c for c in chains if c != left] for left in reversed(chains))]
    for candidate in candidates[:MAX_TRIALS]:
        if all(shows(candidate) for _ in range(CONFIRMATIONS)):
            return tuple(candidate)
    raise NotReproducedError(
        f"no order of named points shows {wanted.invariant} ({wanted.message}): expected it under "
        f"{'; '.join(chains) or 'no order'}. The race lies between two operations that have no name; "
        "keep the token."
    )


def _scenario_of(where: Located, findings: Sequence[Finding], chains: tuple[str, ...]) -> Promoted:
    first = findings[0]
    family, _, name = where.program.partition("/")
    scenario_id = f"promoted/{family}-{name}-{first.invariant.lower()}"
    function = re.sub(r"\W", "_", scenario_id.partition("/")[2])
    orders = "".join(f"\n        {chain!r}," for chain in chains).replace("'", '"')
    story = f"{where.program} in the order in which exploration broke {first.invariant}: {first.message}."
    told = textwrap.fill(story, 96, subsequent_indent="    ")
    text = f'''"""A schedule that exploration found on {where.spec}, kept as a scenario."""

from omni_verify.harness.scenario import scenario
from omni_verify.harness.script import Script


@scenario(
    "{scenario_id}",
    invariants=("{first.invariant}",),
    source="explore: {where.token}",
)
def {function}(s: Script) -> None:
    """{told}"""
    s.follow(
        "{where.program}",{orders}
    )
'''
    return Promoted(id=scenario_id, text=text, chains=chains)


def _test_of(where: Located, message: str) -> Promoted:
    name = "test_" + re.sub(r"\W", "_", where.program.rpartition(":")[2])
    shown = message.replace('"', "'").splitlines()[0][:90]
    more = f", instrument={list(where.instrument)!r}" if where.instrument else ""
    text = f'''"""A schedule that exploration found, kept as a regression test."""

from omni_verify.campaign.explore.replay import replay

TOKEN = "{where.token}"


def {name}() -> None:
    """It failed with: {shown}"""
    report = replay(TOKEN, program="{where.program}"{more})
    assert report.outcome != "VIOLATED", report.answer.message
'''
    return Promoted(id=name, text=text)
