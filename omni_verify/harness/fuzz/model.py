"""The sequential model of the contract: what each consumer may see, given what its producer was told.

It knows nothing of threads or schedules. What every run must keep whatever the program (own frames, in order,
once; no residue) is judged by `omni_verify.checks`; the model adds what follows from the program.
"""

from __future__ import annotations

import msgspec

from omni_verify.checks.observation import Broken, Delivered
from omni_verify.faults.nemeses import Harm

__all__ = ["Stream", "judge"]


class Stream(msgspec.Struct, kw_only=True):
    """One request: what was asked for, and what its consumer saw.

    Attributes:
        label, generation: which request.
        frames, boundaries: what the producer's scheduler handed over.
        ended: its terminal was handed over.
        aborted: some stage aborted or dropped it; nobody waits for it any more.
        refused: the producer refused it because of its id; the reason.
        may_be_refused: the id was used again before the save thread had done what was queued.
        late: an output was handed over after the request was over.
        late_recorded: that was refused on record.
        harm: the worst that the strikes allow.
        expired: its sender failed it on record and took the error terminal back before it was first read.
        read_to_end: the consumer asked for everything.
        got: what it got, as it was when it asked for no more.
    """

    label: str
    generation: int
    frames: int = 0
    boundaries: int = 0
    ended: bool = False
    aborted: bool = False
    refused: str = ""
    may_be_refused: bool = False
    late: bool = False
    late_recorded: bool = False
    harm: Harm = Harm.NONE
    expired: bool = False
    read_to_end: bool = False
    got: Delivered | None = None


def judge(stream: Stream, *, records_failures: bool = True) -> list[Broken]:
    """Compare one request with the model.

    Args:
        stream: the request.
        records_failures: the target can report a refusal at all.
    """
    found = [*_refusal(stream, records_failures=records_failures)]
    got = stream.got
    if got is None or stream.refused:
        return found
    if got.error and stream.harm is Harm.NONE:
        found.append(
            _broken(
                stream, ("I36", "I46"), "an undisturbed request ended with an error", "no error", got.error
            )
        )
    if not stream.read_to_end or stream.aborted or not stream.ended or got.error:
        return found
    return [*found, *_whole(stream, got)]


def _refusal(stream: Stream, *, records_failures: bool) -> list[Broken]:
    found = []
    if stream.refused and not stream.may_be_refused:
        found.append(
            _broken(
                stream,
                ("I30", "I32"),
                "a request was refused although its id was free",
                "it is admitted: both stages were done with the id and the save queue was drained",
                stream.refused,
            )
        )
    if stream.late and records_failures and not stream.late_recorded:
        found.append(
            _broken(
                stream, ("I32",), "a late output was not refused on record", "a send failure", "no record"
            )
        )
    if stream.refused and stream.got is not None and stream.got.frames:
        found.append(
            _broken(
                stream, ("I32",), "a refused request delivered frames", "none", str(len(stream.got.frames))
            )
        )
    return found


def _whole(stream: Stream, got: Delivered) -> list[Broken]:
    """A stream that was read to its end without an error is complete, however it was struck."""
    expired = stream.expired and stream.harm is not Harm.NONE  # a failure without a strike excuses nothing
    if (stream.harm is Harm.SILENT or expired) and not got.finishes:
        return []
    found = []
    if got.waiting or not got.finishes:
        found.append(
            _broken(
                stream,
                ("I36", "I14"),
                "the end of a request never came",
                "its terminal, or an error at once",
                f"{len(got.frames)} of {stream.frames} frames, then silence until the deadline",
            )
        )
    elif len(got.frames) != stream.frames:
        found.append(
            _broken(
                stream,
                ("I36", "I13"),
                "a request ended cleanly with another number of frames than were sent",
                f"{stream.frames} frames, or an error",
                f"{len(got.frames)} frames, no error",
            )
        )
    elif got.boundaries != stream.boundaries:
        found.append(
            _broken(
                stream,
                ("I14", "I13"),
                "a session delivered another number of segment ends than were sent",
                str(stream.boundaries),
                str(got.boundaries),
            )
        )
    return found


def _broken(stream: Stream, family: tuple[str, ...], message: str, expected: str, found: str) -> Broken:
    return Broken(
        family=family,
        message=message,
        expected=expected,
        found=f"{found} ({stream.label}, generation {stream.generation})",
        key=stream.label,
    )
