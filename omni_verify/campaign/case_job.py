"""The job that the catalogue campaigns send to a zygote: one scenario, and how its end is read."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Any

import msgspec

from omni_verify.campaign import wire
from omni_verify.harness.result import CaseResult
from omni_verify.harness.scenario import Scenario, get
from omni_verify.settings import Settings
from omni_verify.targets.protocol import Target
from omni_verify.verdict import Evidence, Finding, Verdict, judge

__all__ = ["ENTRY", "params", "read", "run"]

ENTRY = "omni_verify.campaign.case_job:run"
"""Name of `run` for `Zygote.submit`."""

OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
"""Signals that somebody else sends: they say nothing about the target (the kernel's OOM killer included)."""


def params(scenario: Scenario, settings: Settings, nemeses: Sequence[str] = ()) -> dict[str, object]:
    """Arguments of `run`."""
    return {
        "scenario": scenario.id,
        "settings": msgspec.to_builtins(settings),
        "nemeses": list(nemeses),
    }


def run(target: Target, arguments: dict[str, Any], context: wire.JobContext) -> bytes:
    """Run one scenario in this process, which has entered its namespace; return the encoded result."""
    scenario = get(arguments["scenario"])
    if scenario.isolation == "mount" and context.isolation != "mount":
        result = CaseResult(
            id=scenario.id,
            verdict=Verdict.NOT_APPLICABLE,
            reason="it needs a private /dev/shm, and this system permits no mount namespace",
            invariants=scenario.invariants,
        )
    else:
        from omni_verify.harness.case import run_case

        settings = msgspec.convert(arguments["settings"], Settings)
        result = run_case(
            target,
            scenario,
            settings=settings,
            prefix=context.prefix,
            isolation=context.isolation,
            nemeses=arguments.get("nemeses", ()),
        )
    return msgspec.msgpack.encode(result)


def read(scenario: Scenario, outcome: wire.Outcome) -> CaseResult:
    """Turn the outcome of a job into the result of its case; a crash and a hang are results too."""
    if outcome.payload is not None and not outcome.timed_out:
        try:
            result = msgspec.msgpack.decode(outcome.payload, type=CaseResult)
        except msgspec.MsgspecError as error:
            outcome = msgspec.structs.replace(outcome, error=f"the result does not decode: {error}")
        else:
            result.duration_s = result.duration_s or outcome.duration_s
            return result
    findings: list[Finding] = []
    cut, stacks = "", outcome.output
    if outcome.timed_out:
        cut = f"ended from outside after {outcome.duration_s:.0f} s (OMNI_VERIFY_CASE_S); all stacks are kept"
    elif outcome.error:
        cut = f"the case runner failed: {outcome.error.strip().splitlines()[-1]}"
        stacks = outcome.error + outcome.output
    elif outcome.signal in OUTSIDE:
        cut = f"the process was ended from outside by {signal.Signals(outcome.signal).name}"
    else:
        findings = [_crash(scenario, outcome)]
    verdict, reason = judge(findings, Evidence(actors=("process",), cut=cut))
    return CaseResult(
        id=scenario.id,
        verdict=verdict,
        reason=reason,
        findings=findings,
        invariants=scenario.invariants,
        stacks=stacks,
        duration_s=outcome.duration_s,
    )


def _crash(scenario: Scenario, outcome: wire.Outcome) -> Finding:
    if outcome.signal:
        how = f"killed by {signal.Signals(outcome.signal).name}"
    else:
        how = f"ended itself with status {outcome.status}"
    return Finding(
        invariant=scenario.crash,
        message=f"the target's process was {how}" if outcome.signal else f"the target's process {how}",
        expected="an error that the caller can handle; the process lives",
        found=how,
        key="process",
        evidence={"signal": outcome.signal, "status": outcome.status},
    )
