"""What a consumer got against what its producer sent: every frame once, in order, its own."""

from __future__ import annotations

from omni_verify.checks.observation import Broken, Delivered, Observation, Sent

__all__ = ["check_frames", "check_terminals"]

_LAYOUT = ("I12", "I18", "I26")
_MIXED = ("I38c", "I32", "I30", "I38", "I38b", "I26")
_ORDER = ("I28", "I13", "I36", "I18", "I26", "I38")
_LOST = ("I36", "I13", "I34", "I14", "I28", "I15", "I47")
_NO_END = ("I14", "I36", "I33", "I34", "I46", "I26", "I28", "I30", "I38b")


def check_frames(seen: Observation) -> list[Broken]:
    """Delivered frames are a prefix of the producer's own frames; a finished stream has all of them.

    The rules: layout I12, own generation I30/I32/I38c, order and exactly once I13/I28, and a loss is
    surfaced, never a gap-free shorter stream (I36).
    """
    broken: list[Broken] = []
    for got in seen.delivered:
        where = f"{got.stage} request {got.label} (generation {got.generation})"
        if got.broken:
            broken.append(
                _make(
                    _LAYOUT,
                    got,
                    f"{where} got frames that nobody sent",
                    "frames as painted",
                    "; ".join(got.broken[:3]),
                )
            )
        foreign = [f for f in got.frames if (f[0], f[1]) != (got.label, got.generation)]
        if foreign:
            shown = ", ".join(f"{s} generation {g} frame {i}" for s, g, i in foreign[:4])
            broken.append(
                _make(
                    _MIXED,
                    got,
                    f"{where} got frames of another stream",
                    "only its own generation's frames",
                    shown,
                )
            )
            continue
        indices = [f[2] for f in got.frames]
        if indices != list(range(len(indices))):
            broken.append(
                _make(
                    _ORDER,
                    got,
                    f"{where} got its frames out of order, doubled or with a hole",
                    "0, 1, 2, … without gap",
                    _runs(indices),
                )
            )
            continue
        sent = _sent(seen, got)
        if sent and got.finishes and not got.error and len(indices) < sent.frames:
            broken.append(
                _make(
                    _LOST,
                    got,
                    f"{where} ended without an error and without all frames",
                    f"{sent.frames} frames or an error",
                    f"{len(indices)} frames, no error",
                )
            )
    return broken


def check_terminals(seen: Observation) -> list[Broken]:
    """Each stream ends exactly once at its consumer: with its terminal or with an error (I14, I36, I46)."""
    broken: list[Broken] = []
    for got in seen.delivered:
        where = f"{got.stage} request {got.label} (generation {got.generation})"
        if got.finishes > 1:
            broken.append(
                _make(
                    ("I7", "I14"),
                    got,
                    f"{where} saw its end {got.finishes} times",
                    "one end",
                    f"{got.finishes}",
                )
            )
        sent = _sent(seen, got)
        over = sent is not None and (sent.ended or bool(sent.refused)) and not sent.aborted
        if over and got.waiting and not got.aborted and not got.error and not got.finishes:
            broken.append(
                _make(
                    _NO_END,
                    got,
                    f"{where} waits for a chunk that never comes",
                    "its terminal, or an error at once",
                    f"{len(got.frames)} frames, then silence until the deadline",
                )
            )
    return broken


def _sent(seen: Observation, got: Delivered) -> Sent | None:
    for sent in seen.sent:
        if (sent.label, sent.generation) == (got.label, got.generation) and got.sender in ("", sent.stage):
            return sent
    return None


def _make(family: tuple[str, ...], got: Delivered, message: str, expected: str, found: str) -> Broken:
    return Broken(family=family, message=message, expected=expected, found=found, key=got.label)


def _runs(indices: list[int]) -> str:
    shown = ", ".join(map(str, indices[:16]))
    return shown + (", …" if len(indices) > 16 else "")
