"""A fuzzed program as a workload of the explorer, judged by the common checks and the model."""

from __future__ import annotations

import re

from omni_verify.checks import run_common
from omni_verify.checks.observation import Broken
from omni_verify.engine.schedule import fingerprint
from omni_verify.faults.nemeses import choose
from omni_verify.harness.explored import ContractViolation, Workload
from omni_verify.harness.fuzz.program import Program
from omni_verify.harness.fuzz.run import FuzzRun
from omni_verify.harness.fuzz.store import kept_in_store
from omni_verify.harness.scenario import Scenario
from omni_verify.harness.script import Script
from omni_verify.targets.protocol import Target
from omni_verify.verdict import Finding

__all__ = ["PREFIX", "FuzzWorkload", "identity_of"]

PREFIX = "fuzz:"
"""Names of fuzzed programs begin with it; the encoded program follows."""
_WHO = re.compile(r"(?:\S+ )?request \S+ \(generation \d+\)")


class FuzzWorkload(Workload):
    """A fuzzed program as a zero-argument program of the explorer.

    Attributes:
        wanted: identity that alone counts as the failure, or its fingerprint; empty for whatever comes first.
        run: the last run.
        findings: what the last execution found, by identity.
    """

    def __init__(self, target: Target, program: Program, *, prefix: str = "", wanted: str | int = "") -> None:
        self.specs = choose(program.nemeses, target.capabilities)
        self.fuzzed, self.wanted = program, wanted
        self.run: FuzzRun | None = None
        self.findings: dict[str, Finding] = {}
        scenario = Scenario(
            id="fuzz/program", program=self._play, story=str(program), invariants=("*",), source="generated"
        )
        super().__init__(target, scenario, prefix=prefix)
        self.__qualname__ = f"{PREFIX}{program.encode()}"

    def __call__(self) -> None:
        """Run once.

        Raises:
            ContractViolation: something was found, and `wanted` is it or is empty.
        """
        self.run, self.findings = None, {}
        try:
            super().__call__()
        except ContractViolation as violation:
            violation.identity = next(i for i, f in self.findings.items() if f is violation.findings[0])
            raise

    def _play(self, script: Script) -> None:
        self.run = FuzzRun(script, self.fuzzed, self.specs)
        self.run.play()

    def _judge(self, script: Script) -> list[Finding]:
        run, seen = self.run, script.seen
        if run is not None:
            seen.quiet = [n for n in seen.quiet or [] if not run.excused(n)]
            seen.closed = [n for n in seen.closed or [] if not run.excused(n)]
            seen.leftovers = [
                x
                for x in seen.leftovers or []
                if x.container != "_pending_keys"
                or not any(s.leaves and s.key in x.entry for s in run.roaming.struck)
            ]
        broken = [*script.broken, *run_common(seen)]
        if run is not None and run.store and not {"stop", "restart"} & {op.verb for op in self.fuzzed.ops}:
            broken.append(kept_in_store(sorted(run.store)))
        for item in broken:
            self.findings.setdefault(identity_of(item), _finding(item))
        if isinstance(self.wanted, str):
            return [f for i, f in self.findings.items() if self.wanted in ("", i)]
        return [f for i, f in self.findings.items() if self.wanted in (0, fingerprint(i))]


def identity_of(item: Broken) -> str:
    """Invariant and message without names and numbers: equal for the same defect in any program."""
    message = _WHO.sub("a request", item.message)
    if item.message.endswith("raised"):
        message += f" {item.found.split(':')[0]}"
    return f"{_invariant(item)}: {message}"


def _invariant(item: Broken) -> str:
    return next((i for i in item.family if i != "*"), "I37b")


def _finding(item: Broken) -> Finding:
    return Finding(
        invariant=_invariant(item),
        message=item.message,
        expected=item.expected,
        found=item.found,
        key=item.key,
        evidence=item.evidence,
    )
