"""A scenario as a workload with nemeses: whether one strikes is on the tape, as who runs next is."""

from __future__ import annotations

from collections.abc import Sequence

from omni_verify.checks import attribute
from omni_verify.faults.nemeses import choose
from omni_verify.harness.explored import Workload
from omni_verify.harness.scenario import Scenario
from omni_verify.harness.script import Script
from omni_verify.harness.siege import Siege
from omni_verify.targets.protocol import Target
from omni_verify.verdict import Finding

__all__ = ["BesiegedWorkload"]


class BesiegedWorkload(Workload):
    """As `Workload`, with nemeses that roam; once something was struck, `Siege` says what is judged.

    Args:
        nemeses: names, as `omni_verify.faults.nemeses.choose` takes them.
    """

    def __init__(
        self, target: Target, scenario: Scenario, nemeses: Sequence[str], *, prefix: str = ""
    ) -> None:
        super().__init__(target, scenario, prefix=prefix)
        self._specs = choose(nemeses, target.capabilities)
        self.siege: Siege | None = None
        self.__qualname__ += f"+{','.join(nemeses)}"

    def _drive(self, script: Script) -> None:
        self.siege = Siege(script, self._specs)
        super()._drive(script)

    def _judge(self, script: Script) -> list[Finding]:
        if self.siege is None or not self.siege.roaming.struck:
            return super()._judge(script)
        findings, side = attribute(self.siege.broken(), self.scenario.invariants)
        return [f for f in (*findings, *side) if f.invariant not in self.ignored]
