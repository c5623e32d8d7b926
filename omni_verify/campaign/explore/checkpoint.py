"""Finished shards on disk, so that an interrupted exploration goes on where it was."""

from __future__ import annotations

from pathlib import Path

import msgspec

from omni_verify.campaign.explore.exploration import Plan, ShardResult
from omni_verify.errors import UsageError

__all__ = ["Checkpoint"]


class _Header(msgspec.Struct, frozen=True, kw_only=True):
    schema: str = "omni-verify/explore-checkpoint/1"
    target: str
    programs: tuple[str, ...]
    plan: Plan


class Checkpoint:
    """A file with one line for the plan and one for each finished shard.

    Args:
        path: the file; None keeps nothing.
        resume: read it first; else it is started anew.

    Raises:
        UsageError: it cannot be read or written, or belongs to another exploration.
    """

    def __init__(
        self, path: Path | None, *, resume: bool, target: str, programs: tuple[str, ...], plan: Plan
    ) -> None:
        self.path = path
        self.done: dict[tuple[str, int], ShardResult] = {}
        header = _Header(target=target, programs=programs, plan=plan)
        if path is None:
            if resume:
                raise UsageError("--resume needs the file to resume from: give it with --checkpoint FILE.")
            return
        try:
            if resume and path.exists():
                self._read(path, header)
            else:
                path.write_bytes(msgspec.json.encode(header) + b"\n")
        except OSError as error:
            raise UsageError(f"cannot use the checkpoint {str(path)!r}: {error.strerror}.") from None

    def _read(self, path: Path, header: _Header) -> None:
        first, *lines = path.read_bytes().splitlines()
        try:
            found = msgspec.json.decode(first, type=_Header)
        except msgspec.MsgspecError as error:
            raise UsageError(f"{str(path)!r} is no checkpoint of explore: {error}.") from None
        for name in ("target", "programs", "plan"):
            expected, got = getattr(header, name), getattr(found, name)
            if expected != got:
                raise UsageError(
                    f"the checkpoint {str(path)!r} belongs to another exploration: {name} expected "
                    f"{expected}, got {got}. Repeat its options, or start a new file."
                )
        for line in lines:
            try:
                result = msgspec.json.decode(line, type=ShardResult)
            except msgspec.MsgspecError:
                continue  # the last line of a run that was killed while it wrote
            self.done[result.program, result.number] = result

    def keep(self, result: ShardResult) -> None:
        """Write a shard that ran to its end; one that was cut by time runs again."""
        if self.path is not None and not result.error and result.stopped != "time":
            with self.path.open("ab") as file:
                file.write(msgspec.json.encode(result) + b"\n")
