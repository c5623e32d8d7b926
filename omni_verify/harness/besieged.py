"""A scenario as a workload with nemeses: whether one strikes is on the tape, as who runs next is."""

from __future__ import annotations

from collections.abc import Sequence

from omni_verify.checks import attribute, run_common
from omni_verify.checks.observation import Broken
from omni_verify.faults.nemeses import Harm, Roaming, choose
from omni_verify.harness.explored import Workload
from omni_verify.harness.scenario import Scenario
from omni_verify.harness.script import Script
from omni_verify.targets.protocol import Target
from omni_verify.verdict import Finding

__all__ = ["BesiegedWorkload"]


class BesiegedWorkload(Workload):
    """As `Workload`, with nemeses that roam.

    Once something was struck, the expectations that are special to the scenario say nothing any more; the
    common checks judge on, without the objects that a nemesis itself left behind and without the streams
    whose loss nobody inside could know.

    Args:
        nemeses: names, as `omni_verify.faults.nemeses.choose` takes them.
    """

    def __init__(
        self, target: Target, scenario: Scenario, nemeses: Sequence[str], *, prefix: str = ""
    ) -> None:
        super().__init__(target, scenario, prefix=prefix)
        self._specs = choose(nemeses, target.capabilities)
        self.roaming: Roaming | None = None
        self.__qualname__ += f"+{','.join(s.name for s in self._specs)}"

    def _drive(self, script: Script) -> None:
        runtime = script.runtime
        self.roaming = Roaming(
            self._specs, getattr(runtime, "choose", None), runtime.reach, prefix=script.prefix
        )
        script.faults.roaming = self.roaming
        super()._drive(script)

    def _judge(self, script: Script) -> list[Finding]:
        if self.roaming is None or not self.roaming.struck:
            return super()._judge(script)
        seen = script.seen
        seen.quiet = [n for n in seen.quiet or [] if not self._made(n)]
        seen.closed = [n for n in seen.closed or [] if not self._made(n)]
        findings, side = attribute([b for b in run_common(seen) if self._counts(b)], self.scenario.invariants)
        return [f for f in (*findings, *side) if f.invariant not in self.ignored]

    def _made(self, name: str) -> bool:
        assert self.roaming is not None
        return any(s.leaves and s.key in name for s in self.roaming.struck)

    def _counts(self, broken: Broken) -> bool:
        assert self.roaming is not None
        excused = (s for s in self.roaming.struck if s.harm is Harm.SILENT or s.leaves)
        return not any(s.concerns(broken.key) for s in excused)
