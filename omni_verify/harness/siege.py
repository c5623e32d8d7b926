"""A run under nemeses, and what it is judged by: the contracts that hold whatever was struck."""

from __future__ import annotations

from collections.abc import Sequence

from omni_verify.checks import run_common
from omni_verify.checks.observation import Broken, Observation
from omni_verify.faults.nemeses import Harm, NemesisSpec, Roaming
from omni_verify.harness.script import Script
from omni_verify.targets.protocol import Target

__all__ = ["ALWAYS_JUDGED", "Siege", "blames_target", "refused_by_id"]

ALWAYS_JUDGED = tuple(
    "I12 I13 I14 I18 I19 I20 I22 I23 I28 I30 I32 I33 I34 I36 I37b I38c I39 I46 I51 I53".split()  # noqa: SIM905
)
"""Invariants that the common checks judge in any run: a strike may cost a stream its frames, never these."""
_BY_ID = ("drain", "release", "retired", "shut down")


class Siege:
    """The nemeses of one run on one script.

    What a scenario expects besides the common checks is the story of a run without faults, so it is not
    judged once something was struck. Nor are the objects that a nemesis itself left behind, the streams whose
    loss nobody inside could know, and exceptions that the scenario raised over a struck result.

    Args:
        script: of the run, before any stage is built.
        specs: what may strike.
        strikes: at most so many, all nemeses together.
    """

    def __init__(self, script: Script, specs: Sequence[NemesisSpec], *, strikes: int = 2) -> None:
        self.script = script
        self.roaming = script.lay_siege(
            Roaming(
                specs,
                getattr(script.runtime, "choose", None),
                script.runtime.reach,
                prefix=script.prefix,
                strikes=strikes,
            )
        )

    @property
    def names(self) -> str:
        """Names of the nemeses that struck."""
        return ", ".join(dict.fromkeys(s.nemesis for s in self.roaming.struck))

    def broken(self) -> list[Broken]:
        """What the common checks find in the script's observation."""
        seen = self.script.seen
        self._spare(seen)
        return [broken for broken in run_common(seen) if self._counts(broken)]

    def _spare(self, seen: Observation) -> None:
        seen.quiet = [n for n in seen.quiet or [] if not self._made(n)]
        seen.closed = [n for n in seen.closed or [] if not self._made(n)]
        refused = {s.label for s in seen.sent if refused_by_id(s.refused)}
        for got in seen.delivered:  # an engine would have ended it on every stage; a scenario goes on
            got.aborted = got.aborted or got.label in refused
        seen.failures = {
            actor: text
            for actor, text in seen.failures.items()
            if actor not in self.script.errors or blames_target(self.script.errors[actor], self.script.target)
        }

    def _made(self, name: str) -> bool:
        return any(s.leaves and s.key in name for s in self.roaming.struck)

    def _counts(self, broken: Broken) -> bool:
        excused = (s for s in self.roaming.struck if s.harm is Harm.SILENT or s.leaves)
        return not any(s.concerns(broken.key) for s in excused)


def refused_by_id(reason: str) -> bool:
    """Tell whether a recorded send failure says that the id was not free, as against a send that failed."""
    return any(word in reason for word in _BY_ID)


def blames_target(error: BaseException, target: Target) -> bool:
    """Tell whether an exception was raised by the target's own code, and not because of an injected one."""
    own = {module.__name__ for group in target.modules().values() for module in group}
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__ or link.__context__
    rooms = [_raised_in(e) for e in chain]
    return rooms[0] in own and not any(room.startswith("omni_verify.faults.nemes") for room in rooms)


def _raised_in(error: BaseException) -> str:
    where = error.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    return str(where.tb_frame.f_globals.get("__name__", "")) if where else ""
