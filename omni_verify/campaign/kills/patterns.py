"""What a killed process of the reference pipeline may leave, as data (I53, SPEC of the wake directory).

A connector that is killed closes nothing. Who removes what it had, and when:

* its unread chunks: the stage's successor, at the release of the failed request; or any sibling that closes,
  by the journal;
* its journal and its spares: any sibling that closes, else the parent; its successor lives on, so not before
  the end;
* its FIFO: the parent, at the end of the pipeline; senders skip a FIFO that nobody reads;
* the wake directory: whoever closes last and finds it empty.
"""

from __future__ import annotations

import msgspec

__all__ = ["ALLOWED", "Allowance", "allowance"]

_KINDS = ("segment", "lock", "fifo", "owner", "spare", "wake")


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """What may be there at one moment.

    Attributes:
        victim: ``stage``, ``tracker``, ``parent`` or ``all``.
        ended: the whole pipeline has ended; else it lives and is quiescent.
        living: kinds that living processes have; of a living pipeline only.
        dead: kinds that the dead may have left.
        reason: why.
    """

    victim: str
    ended: bool
    living: frozenset[str] = frozenset()
    dead: frozenset[str] = frozenset()
    reason: str


_LIVING = frozenset({"wake", "fifo", "owner", "spare"})

ALLOWED: tuple[Allowance, ...] = (
    Allowance(
        victim="stage",
        ended=False,
        living=_LIVING,
        dead=frozenset({"fifo", "owner", "spare"}),
        reason="the successor releases the failed request's chunks; FIFO and journal wait for the end",
    ),
    Allowance(
        victim="stage",
        ended=True,
        reason="siblings or the parent sweep the journal, the parent removes FIFOs and directory",
    ),
    Allowance(victim="tracker", ended=False, living=_LIVING, reason="no segment is ever tracked (W29)"),
    Allowance(victim="tracker", ended=True, reason="no segment is ever tracked (W29)"),
    Allowance(
        victim="parent",
        ended=True,
        dead=frozenset({"fifo", "owner", "spare", "wake"}),
        reason="stages close by themselves; what earlier kills left was the parent's to remove",
    ),
    Allowance(
        victim="all", ended=True, dead=frozenset(_KINDS), reason="nobody is left who could remove anything"
    ),
)
"""Every combination that a kill matrix meets."""


def allowance(victim: str, *, ended: bool) -> Allowance:
    """Return what may be left after this victim; stages are named ``stage0`` and so on.

    Raises:
        KeyError: no such combination.
    """
    kind = "stage" if victim.startswith("stage") else victim
    for one in ALLOWED:
        if one.victim == kind and one.ended == ended:
            return one
    raise KeyError((victim, ended))
