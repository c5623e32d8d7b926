"""A scenario as a workload: one execution under the controlled scheduler, judged by the same checks.

The declared order and the pauses are dropped, a strategy chooses instead. Expectations that are
special to a scenario are true under its order only, so they count in the executions that happen to
show it; the common checks judge every execution.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from types import ModuleType

from omni_verify.checks import attribute, run_common
from omni_verify.contracts import invariants
from omni_verify.engine.control import ControlledRuntime, instrument
from omni_verify.engine.order import PartialOrder
from omni_verify.harness.scenario import Scenario
from omni_verify.harness.script import Script
from omni_verify.settings import Settings
from omni_verify.targets.protocol import Target
from omni_verify.trace.event import Event
from omni_verify.verdict import Finding

__all__ = ["ContractViolation", "Workload", "controlled"]


class ContractViolation(AssertionError):
    """Raised inside an execution that broke a contract.

    Attributes:
        findings: what was broken, first found first.
        identity: what stays equal while the schedule is minimised.
        events: the trace of the execution.
    """

    def __init__(self, findings: list[Finding], events: list[Event]) -> None:
        first = findings[0]
        contrast = f"expected {first.expected or '-'}, found {first.found or '-'}"
        super().__init__(f"{first.invariant} violated: {first.message} ({contrast})")
        self.findings, self.events = findings, events
        self.identity = f"{first.invariant}:{first.message}"


class Workload:
    """A zero-argument program: one execution of a scenario under the current controlled scheduler.

    Attributes:
        last: the trace of the last execution.
        ignored: invariants whose findings are known and do not end an execution.
    """

    def __init__(
        self, target: Target, scenario: Scenario, *, prefix: str = "", ignored: frozenset[str] = frozenset()
    ) -> None:
        self.target, self.scenario, self.prefix, self.ignored = target, scenario, prefix, ignored
        self.last: list[Event] = []
        self.__qualname__ = f"{target.spec}::{scenario.id}"

    def __call__(self) -> None:
        """Run once.

        Raises:
            ContractViolation: a check found something.
        """
        runtime = ControlledRuntime(self.prefix)
        script = Script(self.target, runtime, PartialOrder(), self.prefix, settings=Settings(), explored=True)
        try:
            self._drive(script)
        finally:
            script.patcher.undo()
            self.last = list(runtime.trace)
            _empty(self.prefix)
        findings = self._judge(script)
        if findings:
            raise ContractViolation(findings, self.last)

    def _drive(self, script: Script) -> None:
        steps: tuple[tuple[str, Callable[[], None]], ...] = (
            ("program", lambda: self.scenario.program(script)),
            ("quiesce", script.quiesce),
            ("shutdown", script.shutdown),
        )
        for name, step in steps:
            try:
                step()
            except Exception as error:
                script.errors[name] = error
                script.seen.failures[name] = f"{type(error).__name__}: {error}"
        script.errors |= script.runtime.failures
        script.seen.failures |= {a: f"{type(e).__name__}: {e}" for a, e in script.runtime.failures.items()}
        script.seen.trace = list(script.runtime.trace)

    def _judge(self, script: Script) -> list[Finding]:
        ordered = not script.paused and not script.order.unobserved(script.runtime.trace)
        broken = [*run_common(script.seen), *(script.broken if ordered else script.lasting)]
        findings, side = attribute(broken, self.scenario.invariants)
        known = sorted([*findings, *side], key=lambda f: (f not in findings, f.invariant))
        return [f for f in known if f.invariant not in self.ignored and f.invariant in invariants.INVARIANTS]


@contextlib.contextmanager
def controlled(target: Target, granularity: str = "sync") -> Iterator[list[str]]:
    """Put a loaded target's modules under control; yield what could not be controlled."""
    modules: dict[str, ModuleType] = {}
    for role, group in target.modules().items():
        if role != "stdlib_shm":
            modules |= {m.__name__: m for m in group}
    with instrument(list(modules.values()), granularity) as missed:
        yield missed


def _empty(prefix: str) -> None:
    """Remove what an execution left: a failing one leaves objects, and the next must not see them."""
    for folder, _, names in os.walk("/dev/shm", topdown=False):
        for name in names:
            if prefix in name or not prefix:
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(folder, name))
        if folder != "/dev/shm" and (not prefix or prefix in folder):
            with contextlib.suppress(OSError):
                os.rmdir(folder)
