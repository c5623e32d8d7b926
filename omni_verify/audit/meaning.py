"""What a name in the shared-memory directory says: kind, request, stage, chunk; by the key grammar alone."""

from __future__ import annotations

import re

import msgspec

from omni_verify.contracts import keys
from omni_verify.errors import UsageError

__all__ = ["Meaning", "meaning_of"]

_ESCAPED = re.compile(re.escape(keys.ESCAPED_PREFIX) + r"(?P<readable>.*)_[0-9a-f]{40}", re.DOTALL)
_OTHERS = re.compile(r"torch_\d+_\d+_\d+")
"""Names of other programs that read as chunk keys: tensors that PyTorch shares between processes."""


class Meaning(msgspec.Struct, frozen=True, kw_only=True):
    """What a name stands for.

    Attributes:
        kind: ``segment``, ``lock``, ``fifo``, ``owner`` (a sender's crash journal), ``spare`` (memory that a
            sender keeps for its next segments) or ``wake`` (a directory).
        key: file name of the transfer key of a segment or lock file, else empty.
        request: external request id. Of a key that is no file name (W16) it is the readable part, which other
            ids may share.
        stage: source stage of a chunk, or the stage that reads a FIFO.
        chunk: number of the chunk.
        pid: process that the name records: the sender of a journal or spare, the launcher of a directory.
        uid: user that the name of a wake directory records.
    """

    kind: str
    key: str = ""
    request: str = ""
    stage: str = ""
    chunk: int | None = None
    pid: int | None = None
    uid: int | None = None


def meaning_of(name: str) -> Meaning | None:
    """Read a path below the shared-memory directory; None for what the grammar does not know."""
    directory, _, inner = name.rpartition("/")
    if directory:
        return _inside_wake(inner) if keys.WAKE_DIRECTORY_PATTERN.fullmatch(directory) else None
    if wake := keys.WAKE_DIRECTORY_PATTERN.fullmatch(name):
        scope = wake["scope"]
        # A scope hash of digits only is as long as no process id is.
        launcher = int(scope) if scope.isdigit() and len(scope) < 24 else None
        return Meaning(kind="wake", uid=int(wake["uid"]), pid=launcher)
    key = keys.key_of_lock_name(name)
    return _chunk(name, "segment") if key is None else _chunk(key, "lock")


def _inside_wake(name: str) -> Meaning | None:
    if owner := keys.OWNER_PATTERN.fullmatch(name):
        return Meaning(kind="owner", pid=int(owner["pid"]))
    if spare := keys.SPARE_PATTERN.fullmatch(name):
        return Meaning(kind="spare", pid=int(spare["pid"]))
    if fifo := keys.WAKE_FIFO_PATTERN.fullmatch(name):
        return Meaning(kind="fifo", stage=fifo["stage"])
    return None


def _chunk(key: str, kind: str) -> Meaning | None:
    escaped = _ESCAPED.fullmatch(key)
    text = escaped["readable"] if escaped else key
    try:
        external_id, stage, chunk = keys.parse_key(text)
    except UsageError:
        return Meaning(kind=kind, key=key, request=text) if escaped else None
    if not escaped and (not keys.is_safe_key(key) or _OTHERS.fullmatch(key)):
        return None
    return Meaning(kind=kind, key=key, request=external_id, stage=str(stage), chunk=chunk)
