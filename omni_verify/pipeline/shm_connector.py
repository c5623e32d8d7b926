"""Chunks through local shared memory, one segment and one lock file per key.

Names, lock files and bytes are those of vllm-omni, so either end may be the reference. Between two reference
ends it is sound where vllm-omni is not:

* Everything that touches a segment holds the key's lock, and a held lock is the one the path names (W3,
  ``lockfile``). So no reader sees a part, takes another put's object, or removes its lock file (I18, I26).
* The lock file is auxiliary: a reader that finds a segment without one makes it, and a consumed object is
  delivered even if the file cannot be removed (W21).
* A failed put removes segment and lock file (I27); a full file system is such a failure (W1, ``segments``).
* A put that ends after close undoes itself (W10); a killed sender's chunks are swept by its siblings
  (``journal``).
* Bytes that do not decode are consumed and reported, not polled for until a deadline (W8).
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections import OrderedDict
from typing import Any

from omni_verify.contracts.keys import SHM_ROOT, file_name, lock_path, segment_path, wake_directory
from omni_verify.pipeline.connector import OmniConnectorBase
from omni_verify.pipeline.journal import OwnerJournal, sweep_dead_owners
from omni_verify.pipeline.lockfile import KeyLock, acquire, acquire_fresh, try_acquire
from omni_verify.pipeline.segments import shm_read_bytes, shm_write_bytes, unlink_segment
from omni_verify.pipeline.serde import Buffer, OmniSerializer
from omni_verify.pipeline.spares import SparePool
from omni_verify.pipeline.wakeup import WakeReceiver, WakeSender, scope_directory

__all__ = ["DEFAULT_LOCK_TIMEOUT_S", "PUT_REAP_THRESHOLD", "REAP_BUDGET", "SharedMemoryConnector"]

REAP_BUDGET = 64
"""Keys that one ``reap_consumed`` looks at (I23)."""

PUT_REAP_THRESHOLD = 64
"""Tracked keys from which on a put forgets consumed ones, for senders that never call ``reap_consumed``."""

DEFAULT_LOCK_TIMEOUT_S = 2.0
"""Seconds that put and cleanup wait for a peer that holds the key's lock; config key ``lock_timeout_s``."""

_log = logging.getLogger(__name__)


class SharedMemoryConnector(OmniConnectorBase):
    """Key-addressed connector of one stage process; safe for concurrent use by its threads.

    Args:
        config: ``stage_id`` (int, default -1), ``wakeup_scope`` (str, default: the parent process),
            ``lock_timeout_s`` (float).
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.stage_id: int = config.get("stage_id", -1)
        self._lock_timeout = float(config.get("lock_timeout_s", DEFAULT_LOCK_TIMEOUT_S))
        # Key -> inode of its lock file, longest unseen first.
        self._pending_keys: OrderedDict[str, int] = OrderedDict()
        # Guards the journal, the counters and the closed flag too; never held while waiting for a lock file.
        self._pending_keys_lock = threading.Lock()
        self._puts_under_way = 0
        self._closed = False
        self._reap_at = PUT_REAP_THRESHOLD
        self._metrics = {"puts": 0, "gets": 0, "bytes_transferred": 0, "put_failures": 0, "get_errors": 0}
        self._directory = scope_directory(config)
        self._journal = OwnerJournal(self._directory)
        self._spares = SparePool(self._directory)
        self._wake_sender = WakeSender(self._directory)
        self._wake_receiver = WakeReceiver(self._directory, self.stage_id)

    # ------------------------------------------------------------------ put

    def put(
        self, from_stage: str, to_stage: str, put_key: str, data: Any
    ) -> tuple[bool, int, dict[str, Any] | None]:
        """Store one object; an unread object under the same key is replaced as a whole.

        Returns:
            ``(True, size, {"shm": {"name", "size"}, "size"})``, or ``(False, 0, None)`` with nothing left.
        """
        try:
            if len(self._pending_keys) >= self._reap_at:
                self._forget_consumed()
            payload = self.serialize_obj(data)
            meta = self._store(put_key, payload)
            if meta is None:
                return False, 0, None
        except Exception as error:
            with self._pending_keys_lock:
                self._metrics["put_failures"] += 1
            _log.error("put of key %r failed: %s: %s", put_key, type(error).__name__, error)
            return False, 0, None
        self._wake_sender.notify(to_stage)
        return True, meta["size"], {"shm": meta, "size": meta["size"]}

    @staticmethod
    def serialize_obj(obj: Any) -> Any:
        """Encode into pieces: a large tensor goes to the file system from where it lies."""
        return OmniSerializer.pieces(obj)

    def _store(self, key: str, payload: bytes | list[bytes | memoryview]) -> dict[str, Any] | None:
        """Write the segment under its lock; None when the connector is closed, before or meanwhile."""
        name = file_name(key)
        with self._pending_keys_lock:
            if self._closed:
                return None
            record = self._journal.note_intent(name)
            self._puts_under_way += 1
        lock: KeyLock | None = None
        try:
            lock = acquire_fresh(lock_path(name), self._lock_timeout)
            self._journal.note_put(record, lock.inode)
            meta: dict[str, Any] = shm_write_bytes(payload, name=name, spares=self._spares)
        except BaseException:
            self._end_put(key, name, lock, None)
            raise
        return meta if self._end_put(key, name, lock, meta) else None

    def _end_put(self, key: str, name: str, lock: KeyLock | None, meta: dict[str, Any] | None) -> bool:
        """Record the put, or undo it if it failed or the connector was closed meanwhile (W10)."""
        with self._pending_keys_lock:
            keep = meta is not None and not self._closed
            if keep and meta is not None and lock is not None:
                self._pending_keys[key] = lock.inode
                self._metrics["puts"] += 1
                self._metrics["bytes_transferred"] += meta["size"]
                self._leave_put()
            elif lock is not None:
                self._pending_keys.pop(key, None)
        try:
            if lock is not None:
                if not keep:
                    unlink_segment(name)
                    lock.remove()
                lock.release()
        finally:
            if not keep:
                with self._pending_keys_lock:
                    self._leave_put()
        return keep

    def _leave_put(self) -> None:
        """End a put that no longer needs its journal record: the key is tracked, or its files are gone."""
        self._puts_under_way -= 1
        self._trim_journal()

    def _trim_journal(self) -> None:
        """Shorten the journal while no put is between its notes and its record. Key lock held."""
        if self._puts_under_way:
            return
        if self._pending_keys:
            if self._journal.is_long(len(self._pending_keys)):
                self._journal.compact((file_name(key), inode) for key, inode in self._pending_keys.items())
        elif self._closed:
            self._journal.close()
        else:
            self._journal.forget_all()

    # ------------------------------------------------------------------ get

    def get(
        self, from_stage: str, to_stage: str, get_key: str, metadata: Any = None
    ) -> tuple[Any, int] | None:
        """Take the object under the key and remove segment and lock file; None when it is not there yet.

        Transport metadata may name the segment (``{"shm": {"name"}}``, also under ``metadata[get_key]``); the
        key alone is enough (I16), and a size in the metadata is not believed.

        Raises:
            PayloadDecodeError: consumed, but the bytes are no payload (W8).
        """
        name = _segment_name(get_key, metadata)
        try:
            data = self._take(name)
        except FileNotFoundError:
            return None
        except OSError as error:
            with self._pending_keys_lock:
                self._metrics["get_errors"] += 1
            _log.debug("get of key %r failed: %s", get_key, error)
            return None
        if not data:
            return None
        with self._pending_keys_lock:
            self._pending_keys.pop(get_key, None)
            self._metrics["gets"] += 1
        return self.deserialize_obj(data), len(data)

    def _take(self, name: str) -> Buffer:
        """Read and remove the segment under its lock; empty when the lock is busy or nothing is filled yet.

        Raises:
            FileNotFoundError: no such segment.
        """
        path = lock_path(name)
        made_lock = False
        try:
            lock = try_acquire(path)
        except FileNotFoundError:
            if not os.path.exists(segment_path(name)):
                raise
            lock = try_acquire(path, create=True)
            made_lock = True
        if lock is None:
            return b""
        try:
            data = shm_read_bytes({"name": name})
            if data:
                lock.remove()
            return data
        except FileNotFoundError:
            if made_lock:
                lock.remove()
            raise
        finally:
            lock.release()

    def get_with_deadline(
        self, from_stage: str, to_stage: str, get_key: str, metadata: Any = None, *, deadline: float
    ) -> tuple[Any, int] | None:
        """As :meth:`get`, which never waits, but None once ``deadline`` (``time.monotonic``) has passed."""
        if time.monotonic() >= deadline:
            return None
        return self.get(from_stage, to_stage, get_key, metadata)

    # ------------------------------------------------------------------ reclaim

    def cleanup(self, request_id: str) -> bool:
        """Remove the unread segment and the lock file of exactly this key, under its lock.

        Returns:
            Whether a segment was removed. Idempotent and never raises. If a peer holds the lock for the whole
            time limit, the key stays tracked, and a later cleanup or close tries again.
        """
        key = request_id
        try:
            done, removed = self._remove(file_name(key))
        except Exception as error:
            _log.warning("cleanup of key %r failed: %s: %s", key, type(error).__name__, error)
            return False
        if done:
            with self._pending_keys_lock:
                self._pending_keys.pop(key, None)
        else:
            _log.warning("cleanup of key %r gave up: its lock is held by a peer", key)
        return removed

    def _remove(self, name: str) -> tuple[bool, bool]:
        """Return (lock was obtained or not needed, segment was removed)."""
        path = lock_path(name)
        try:
            lock = acquire(path, self._lock_timeout)
        except FileNotFoundError:
            if not os.path.exists(segment_path(name)):
                return True, False
            lock = acquire(path, self._lock_timeout, create=True)
        if lock is None:
            return False, False
        try:
            removed = unlink_segment(name)
            lock.remove()
        finally:
            lock.release()
        return True, removed

    def cleanup_prefix(self, key_prefix: str) -> int:
        """Clean up every tracked key that is the prefix and then digits only; return the segments removed."""
        with self._pending_keys_lock:
            keys = [key for key in self._pending_keys if _is_numbered(key, key_prefix)]
        return sum(self.cleanup(key) for key in keys)

    def reap_consumed(self) -> None:
        """Forget tracked keys whose segment is gone: at most 64 a call, the longest unseen first (I23).

        A sender that put nothing since the last call also drops its spares.
        """
        with self._pending_keys_lock:
            for _ in range(min(REAP_BUDGET, len(self._pending_keys))):
                key, inode = self._pending_keys.popitem(last=False)
                if os.path.exists(segment_path(file_name(key))):
                    self._pending_keys[key] = inode
            self._trim_journal()
        self._spares.trim()

    def _forget_consumed(self) -> None:
        """Compare all tracked keys with one listing: cheaper, on the path of a chunk, than a look at each.

        The next time is when the tracked keys have doubled, so the cost of a put stays constant on average.
        """
        with self._pending_keys_lock:
            present = set(os.listdir(SHM_ROOT))
            for key in [key for key in self._pending_keys if file_name(key) not in present]:
                del self._pending_keys[key]
            self._reap_at = max(PUT_REAP_THRESHOLD, 2 * len(self._pending_keys))
            self._trim_journal()

    def close(self) -> None:
        """Remove unread chunks, spares, FIFO and journal, and what dead siblings left (I22, I53)."""
        with self._pending_keys_lock:
            self._closed = True
            keys = list(self._pending_keys)
        for key in keys:
            self.cleanup(key)
        self._spares.close()
        self._wake_receiver.close()
        self._wake_sender.close()
        with self._pending_keys_lock:
            self._trim_journal()
        children = wake_directory(os.getuid(), os.getpid())
        for directory in {self._directory} if "wakeup_scope" in self.config else {self._directory, children}:
            sweep_dead_owners(directory)
            _remove_if_empty(directory)

    # ------------------------------------------------------------------ arrival hints, health

    def get_wakeup_generation(self) -> int | None:
        """Return the hint counter, or None when hints are unavailable and timed polling must do."""
        return self._wake_receiver.get_generation()

    def wait_for_change(self, generation: int, *, timeout: float) -> bool:
        """Wait at most ``timeout`` seconds until a sender announced something after ``generation``."""
        return self._wake_receiver.wait_for_change(generation, timeout=timeout)

    def health(self) -> dict[str, Any]:
        """Return ``status`` (``healthy`` or ``closed``) and the counters of this connector."""
        with self._pending_keys_lock:
            return {"status": "closed" if self._closed else "healthy", **self._metrics}


def _segment_name(key: str, metadata: Any) -> str:
    if isinstance(metadata, dict):
        inner = metadata.get(key, metadata)
        handle = inner.get("shm") if isinstance(inner, dict) else None
        name = handle.get("name") if isinstance(handle, dict) else None
        if isinstance(name, str) and name and "/" not in name and "\0" not in name:
            return name
    return file_name(key)


def _is_numbered(key: str, prefix: str) -> bool:
    return key.startswith(prefix) and key[len(prefix) :].isascii() and key[len(prefix) :].isdigit()


def _remove_if_empty(directory: str) -> None:
    with contextlib.suppress(OSError):  # a sibling still uses it, or it never existed
        os.rmdir(directory)
