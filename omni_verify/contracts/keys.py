"""Names of everything that a transfer leaves in the shared-memory directory, and their grammar.

The chunk key is ``{external_id}_{source_stage}_{chunk_id}``. It is parsed from the right, because an
external id may itself end in ``_<digits>``: ``task`` and ``task_1_2`` are different requests (I21).

A key is used as a file name. Keys that a file system cannot carry, or that would collide with another
name of this grammar, are replaced on both ends by :func:`file_name` (W16); every other key stays as it is,
so that the names on disk are those of vllm-omni.

What a run may leave in :data:`SHM_ROOT` while it lives, and nothing of it afterwards (I51, I53):

=====================================================  ====================================================
``<file_name(key)>``                                   segment: one serialized chunk, mode 0600
``shm_<file_name(key)>_lockfile.lock``                 lock file of that key, empty, mode 0600
``omni_shm_wake_<uid>_<ppid or scope hash>/``          wake directory of one launch, mode 0700
``omni_shm_wake_…/<stage>_<32 hex>``                   FIFO of one receiver, mode 0600
``omni_shm_wake_…/owner_<pid>_<32 hex>``               crash journal of one sender, mode 0600
``omni_shm_wake_…/spare_<pid>_<32 hex>``               memory of one sender's consumed segments, mode 0600
=====================================================  ====================================================
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

from omni_verify.errors import UsageError

__all__ = [
    "ESCAPED_PREFIX",
    "LOCK_PATTERN",
    "MAX_KEY_BYTES",
    "OWNER_PATTERN",
    "SHM_ROOT",
    "SPARE_PATTERN",
    "WAKE_DIRECTORY_PATTERN",
    "WAKE_FIFO_PATTERN",
    "ChunkKey",
    "build_key",
    "file_name",
    "is_safe_key",
    "key_of_lock_name",
    "lock_name",
    "lock_path",
    "owner_name",
    "parse_key",
    "segment_path",
    "sequence_prefix",
    "spare_name",
    "wake_directory",
    "wake_fifo_name",
]

SHM_ROOT = "/dev/shm"
"""Where Linux keeps POSIX shared memory; vllm-omni writes its lock files to the same directory."""

_LOCK_HEAD, _LOCK_TAIL = "shm_", "_lockfile.lock"
_WAKE_HEAD = "omni_shm_wake_"
_NAME_MAX = 255

MAX_KEY_BYTES = _NAME_MAX - len(_LOCK_HEAD) - len(_LOCK_TAIL)
"""Longest key, in UTF-8 bytes, whose lock file name still fits NAME_MAX (237)."""

ESCAPED_PREFIX = "omni_key_"
"""First characters of every file name that :func:`file_name` made up."""

LOCK_PATTERN = re.compile(r"shm_(?P<name>.*)_lockfile\.lock", re.DOTALL)
WAKE_DIRECTORY_PATTERN = re.compile(r"omni_shm_wake_(?P<uid>\d+)_(?P<scope>\d+|[0-9a-f]{24})")
WAKE_FIFO_PATTERN = re.compile(r"(?P<stage>.+)_(?P<nonce>[0-9a-f]{32})", re.DOTALL)
OWNER_PATTERN = re.compile(r"owner_(?P<pid>\d+)_(?P<nonce>[0-9a-f]{32})")
SPARE_PATTERN = re.compile(r"spare_(?P<pid>\d+)_(?P<nonce>[0-9a-f]{32})")
_NUMBER = re.compile(r"-?\d+", re.ASCII)
_UNREADABLE = re.compile(r"[^A-Za-z0-9.+=@-]")


class ChunkKey(NamedTuple):
    """The three fields of a chunk key; ``chunk_id`` counts from 0 for each (external id, source stage)."""

    external_id: str
    source_stage: int
    chunk_id: int


def build_key(external_id: str, source_stage: int, chunk_id: int) -> str:
    """Return ``{external_id}_{source_stage}_{chunk_id}``, an injective map of the three fields."""
    return f"{external_id}_{source_stage}_{chunk_id}"


def sequence_prefix(external_id: str, source_stage: int) -> str:
    """Return what all chunk keys of one sequence start with; the rest of such a key is all digits."""
    return f"{external_id}_{source_stage}_"


def parse_key(key: str) -> ChunkKey:
    """Split a chunk key from the right; the inverse of :func:`build_key`.

    Raises:
        UsageError: the last two fields are not integers in their shortest spelling.
    """
    head, stage, chunk = (*key.rsplit("_", 2), "", "")[:3] if key.count("_") >= 2 else ("", "", "")
    if not (_is_plain_number(stage) and _is_plain_number(chunk)):
        raise UsageError(
            f"not a chunk key: {key!r}. Expected <external id>_<source stage>_<chunk id>, "
            "for example 'req-7_1_0'; the last two fields are integers without leading zeros."
        )
    return ChunkKey(head, int(stage), int(chunk))


def _is_plain_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None and str(int(text)) == text


def is_safe_key(key: str) -> bool:
    """Tell whether a key is used as a file name unchanged (true for every id vllm-omni itself makes)."""
    if not key or "/" in key or "\0" in key or key in {".", ".."}:
        return False
    if key.startswith((ESCAPED_PREFIX, _WAKE_HEAD)) or (
        key.startswith(_LOCK_HEAD) and LOCK_PATTERN.fullmatch(key)
    ):
        return False
    if key.isascii():
        return len(key) <= MAX_KEY_BYTES
    try:
        return len(key.encode()) <= MAX_KEY_BYTES
    except UnicodeEncodeError:  # lone surrogates have no UTF-8 form
        return False


def file_name(key: str) -> str:
    """Map a key to the file name that stands for it; both ends derive it, nothing is transmitted (W16).

    Safe keys map to themselves. The others become ``omni_key_<readable part>_<40 hex of SHA-256>``. The image
    of the second kind is excluded from the first, so the map is injective as far as SHA-256 is. The
    readable part lets a leak audit that looks for a run's prefix recognise the file.
    """
    if is_safe_key(key):
        return key
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:40]
    return f"{ESCAPED_PREFIX}{_UNREADABLE.sub('-', key[:96])}_{digest}"


def lock_name(name: str) -> str:
    """Return the lock file's name for the file name of a key."""
    return f"{_LOCK_HEAD}{name}{_LOCK_TAIL}"


def key_of_lock_name(name: str) -> str | None:
    """Return the file name of the key that a lock file belongs to, or None for another file."""
    match = LOCK_PATTERN.fullmatch(name)
    return match["name"] if match else None


def segment_path(name: str) -> str:
    """Return the path of the segment with this file name."""
    return f"{SHM_ROOT}/{name}"


def lock_path(name: str) -> str:
    """Return the path of the lock file for the file name of a key."""
    return f"{SHM_ROOT}/{_LOCK_HEAD}{name}{_LOCK_TAIL}"


def wake_directory(uid: int, launcher_pid: int, scope: str | None = None) -> str:
    """Return the wake directory of one launch.

    Args:
        uid: numeric user id.
        launcher_pid: parent of the stage processes; used when no scope is configured.
        scope: the connector's ``wakeup_scope``; the first 24 hex digits of its SHA-256 name the directory.
    """
    suffix = str(launcher_pid) if scope is None else hashlib.sha256(scope.encode()).hexdigest()[:24]
    return f"{SHM_ROOT}/{_WAKE_HEAD}{uid}_{suffix}"


def wake_fifo_name(stage_id: object, nonce: str) -> str:
    """Return the file name of a receiver's FIFO; ``nonce`` is 32 hex digits."""
    return f"{stage_id}_{nonce}"


def owner_name(pid: int, nonce: str) -> str:
    """Return the file name of a sender's crash journal; ``nonce`` is 32 hex digits."""
    return f"owner_{pid}_{nonce}"


def spare_name(pid: int, nonce: str) -> str:
    """Return the file name of a spare of a sender's pool; ``nonce`` is 32 hex digits."""
    return f"spare_{pid}_{nonce}"
