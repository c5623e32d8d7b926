"""The memory of one part: what a request and what an abort add to it, and whether that is a leak.

One figure convicts nobody, and resident memory alone acquits only of what could not hide. It grows when the
allocator keeps what was freed, so it must be joined by a witness that retention does not touch, or stay up
when the allocator is trimmed; and it stays flat while a small leak fills what the allocator holds free.
"""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from omni_verify.checks.trend.allocator import Trims
from omni_verify.checks.trend.growth import Growth
from omni_verify.checks.trend.report import Judgement, concluded
from omni_verify.checks.trend.settings import TrendSettings
from omni_verify.checks.trend.text import amount

__all__ = ["PartMemory", "judge_growth"]


class PartMemory(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one part on one question.

    Attributes:
        part: its name.
        question: ``per request`` or ``per abort``.
        lead: the figure that decides, resident memory where it was measured.
        rest: the other memory figures.
        trims: of the lead.
        residue: discrete figures of the part that were found broken; each is a witness.
        settings: thresholds.
    """

    part: str
    question: str
    lead: Growth
    rest: tuple[Growth, ...]
    trims: Trims
    residue: tuple[str, ...]
    settings: TrendSettings

    @property
    def per(self) -> str:
        """``a request`` or ``an abort``."""
        return "an abort" if self.question == "per abort" else "a request"

    def witnesses(self, *kinds: str) -> list[str]:
        """Say which figures of these kinds grow, and what residue there is."""
        return [g.text(self.per) for g in self.rest if g.grows and g.kind in kinds] + list(self.residue)

    def known(self, kind: str) -> list[Growth]:
        """Return the figures of a kind that could be fitted."""
        return [g for g in (self.lead, *self.rest) if g.kind == kind and not g.lack]

    @property
    def is_accounted(self) -> bool:
        """Whether both the heap in use and the live objects are known and flat: nothing can hide."""
        return all(
            found and all(g.is_flat for g in found) for found in (self.known("in_use"), self.known("objects"))
        )

    @property
    def coarse(self) -> float:
        """What resident memory may add where heap and objects are accounted for."""
        is_abort = self.question == "per abort"
        return self.settings.coarse_abort_bytes if is_abort else self.settings.coarse_request_bytes


State = Literal["grows", "flat", "open"]


def judge_growth(memory: PartMemory) -> Judgement:
    """Judge one part on one question (I52)."""
    state, why, needs = _decide(memory)
    lead = _most_exact(memory) if state == "grows" else memory.lead
    if lead.lack:
        sentence = f"{memory.part}: {lead.figure.split('.', 1)[1]} {memory.question}: {why}"
    else:
        sentence = f"{memory.part}: {lead.text(memory.per)}, budget {amount(lead.budget, lead.unit)}: {why}"
    return concluded(
        memory.part,
        memory.question,
        sentence,
        is_broken=state == "grows",
        gap=sentence if state == "open" else "",
        checked=lead.samples,
        estimate=lead.estimate,
        lower=lead.lower,
        upper=lead.upper,
        budget=lead.budget,
        unit=lead.unit,
        needs=needs if state == "open" else 0,
    )


def _most_exact(memory: PartMemory) -> Growth:
    """Of the figures that grow, the one that says how much a leak is."""
    in_bytes = [g for g in (memory.lead, *memory.known("in_use")) if g.grows]
    objects = [g for g in memory.known("objects") if g.grows]
    return min(in_bytes or objects, key=lambda g: g.upper - g.lower, default=memory.lead)


def _decide(memory: PartMemory) -> tuple[State, str, int]:
    lead = memory.lead
    hidden = memory.witnesses("in_use", "objects")
    if lead.grows and (memory.witnesses("in_use") if lead.kind == "resident" else hidden):
        return "grows", _leak(memory), 0
    if lead.grows:
        return *_resident_only(memory), 0
    if lead.slowed:
        return "open", "the growth has slowed in the second half, as a working set does; run longer", 0
    grown = [g for g in memory.rest if g.grows and g.kind in ("in_use", "objects")]
    if grown and len(hidden) > 1:
        return "grows", f"{_leak(memory)}, inside what was resident already", 0
    if grown:
        return "open", f"{hidden[0]} grows, and no second witness does", lead.needs
    if lead.lack:
        return "open", lead.lack, 0
    if lead.kind == "resident" and memory.is_accounted and lead.upper < memory.coarse:
        asked = ", ".join(g.text(memory.per) for g in (*memory.known("in_use"), *memory.known("objects")))
        return "flat", f"below it beyond doubt by {asked}; resident memory bounds the rest", 0
    if not lead.is_flat:
        return _unresolved(memory)
    if lead.kind == "resident":
        return _may_hide(memory)
    return "flat", "below it beyond doubt", 0


def _leak(memory: PartMemory) -> str:
    """Name every figure that grows besides the one that the sentence begins with."""
    told = _most_exact(memory)
    others = [g.text(memory.per) for g in (memory.lead, *memory.rest) if g.grows and g is not told]
    return f"a leak, for so do {', '.join([*others, *memory.residue])}"


def _resident_only(memory: PartMemory) -> tuple[State, str]:
    """Resident memory grows and the heap in use is not seen to."""
    lead, trims, share = memory.lead, memory.trims, memory.settings.trim_share
    in_use = memory.known("in_use")
    covered = trims.cover(lead.total, share)
    if covered and (trims.kept or 0) < lead.budget * lead.requests:
        return "flat", "retained by the allocator, not leaked: after a trim it is back where it was"
    is_returned = trims.returned is not None and trims.returned >= share * lead.total
    # a single trim also gives back what was kept before, under which a leak of small objects would hide
    if memory.is_accounted and is_returned:
        return "flat", (
            f"retained by the allocator, not leaked: {in_use[0].text(memory.per)} is flat, so are live "
            f"objects, and a trim gave back {amount(trims.returned or 0)} of {amount(lead.total)}"
        )
    objects = memory.witnesses("objects")
    if objects and not covered:
        return "grows", _leak(memory)
    # Unshared memory is the same pages: what convicts is that they are still there after the trim. The heap
    # must not say otherwise, and a slope of noise has a total that never was there.
    unshared, excluded = memory.witnesses("unshared"), any(g.is_flat or g.upper < lead.lower for g in in_use)
    if covered is False and unshared and not excluded and trims.risen >= share * lead.total:
        return "grows", f"{_leak(memory)}; a trim does not give it back"
    if covered:
        return "open", f"most of it is retained, yet {amount(trims.kept or 0)} stayed after the last trim"
    if in_use:
        asked = ", ".join(g.text(memory.per) for g in in_use)
        return "open", f"it grows, yet {asked} does not show it: fragments, or memory outside the heap"
    if covered is False:
        return "open", "it grows, and no second witness does"
    return "open", "it grows, and the allocator is not ruled out: record the heap in use, or trim when idle"


def _may_hide(memory: PartMemory) -> tuple[State, str, int]:
    """Resident memory is flat; could a leak at the budget have hidden in what the allocator holds free?"""
    lead, slack = memory.lead, memory.settings.resident_slack
    room = slack / max(lead.requests, 1.0)
    if lead.upper + room < lead.budget:
        return (
            "flat",
            f"below it beyond doubt, {amount(room)} {memory.per} of the allocator's slack included",
            0,
        )
    needs = math.ceil(slack / (lead.budget - lead.upper) - lead.requests)
    why = (
        f"flat, but up to {amount(slack)} may fill what the allocator holds free before it shows, and heap "
        f"in use and live objects do not rule that out; about {needs:,} more {_nouns(memory.per)} would"
    )
    return "open", why, needs


def _unresolved(memory: PartMemory) -> tuple[State, str, int]:
    lead = memory.lead
    others = [g for g in memory.rest if g.kind in ("in_use", "objects") and not g.lack and not g.is_flat]
    suspects = f", nor {', '.join(g.text(memory.per) for g in others)}" if others else ""
    more = f"; about {lead.needs:,} more {_nouns(memory.per)} would" if lead.needs else "; a longer run would"
    return "open", f"the bounds do not decide it{suspects}{more}", lead.needs


def _nouns(per: str) -> str:
    return "aborts" if "abort" in per else "requests"
