"""What one entry of the registries looks like."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Invariant", "Scope", "WeakSpot"]


class Scope(StrEnum):
    """The part of the system an invariant speaks about; the value is its letter."""

    CONFIGURATION = "C"
    ORCHESTRATOR = "O"
    PROCESSOR = "P"
    PAYLOAD = "D"
    CONNECTOR = "K"
    SENDER = "S"
    RECEIVER = "R"
    SCHEDULER_QUEUES = "Q"
    CODE2WAV = "W"
    SERVING = "V"
    LEAKS = "L"

    @property
    def label(self) -> str:
        """The scope in words, for example ``scheduler queues``."""
        return "Code2Wav" if self is Scope.CODE2WAV else self.name.lower().replace("_", " ")


@dataclass(frozen=True, slots=True)
class Invariant:
    """A statement that must hold for every target.

    Attributes:
        id: stable name, for example ``I29``.
        statement: what must hold, in one sentence or two.
        scope: the part of the system it speaks about.
        source: public reports that show why it matters (``vllm-omni#8082``), or the article section.
    """

    id: str
    statement: str
    scope: Scope
    source: str


@dataclass(frozen=True, slots=True)
class WeakSpot:
    """A place where released code breaks an invariant or is fragile by design.

    Attributes:
        id: stable name, for example ``W3``.
        statement: what goes wrong.
        breaks: ids of the invariants that it breaks, or endangers.
        remedy: the mechanism by which the reference avoids it.
    """

    id: str
    statement: str
    breaks: tuple[str, ...]
    remedy: str
