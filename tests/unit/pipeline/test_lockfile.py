"""The lock of one key: exclusive, tied to its path, bounded in time."""

import os
import threading
import uuid

import pytest

from omni_verify.pipeline import lockfile

WAIT_S = 30


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / uuid.uuid4().hex)


def test_without_create_a_missing_file_is_an_error(path):
    with pytest.raises(FileNotFoundError):
        lockfile.try_acquire(path)
    with pytest.raises(FileNotFoundError):
        lockfile.acquire(path, 0)


def test_held_lock_is_busy_for_everybody_else(path):
    lock = lockfile.try_acquire(path, create=True)
    assert lock.inode == os.stat(path).st_ino
    assert lockfile.try_acquire(path) is None
    assert lockfile.acquire(path, 0.02) is None
    with pytest.raises(TimeoutError, match="stayed locked"):
        lockfile.acquire_fresh(path, 0.02)
    lock.release()
    lockfile.try_acquire(path).release()


def test_fresh_lock_replaces_the_file_and_locks_out_those_who_opened_the_old_one(path):
    lockfile.try_acquire(path, create=True).release()
    before = os.stat(path).st_ino
    opened = os.open(path, os.O_RDWR)
    lock = lockfile.acquire_fresh(path, 1)
    assert lock.inode == os.stat(path).st_ino != before
    with pytest.raises(BlockingIOError):
        lockfile.fcntl.flock(opened, lockfile.fcntl.LOCK_EX | lockfile.fcntl.LOCK_NB)
    lock.release()
    os.close(opened)


def test_lock_of_a_removed_file_does_not_count(path, monkeypatch):
    lockfile.try_acquire(path, create=True).release()
    real = lockfile.fcntl.flock

    def remove_first(fd, operation):
        monkeypatch.setattr(lockfile.fcntl, "flock", real)
        os.remove(path)
        real(fd, operation)

    monkeypatch.setattr(lockfile.fcntl, "flock", remove_first)
    with pytest.raises(FileNotFoundError):
        lockfile.try_acquire(path)


def test_waiters_get_the_lock_when_it_is_released(path):
    lock = lockfile.acquire_fresh(path, 1)
    results = []
    thread = threading.Thread(target=lambda: results.append(lockfile.acquire(path, WAIT_S)))
    thread.start()
    lock.release()
    thread.join(WAIT_S)
    assert results[0] is not None
    results[0].release()


def test_failure_to_lock_closes_the_file(path, monkeypatch):
    def fail(fd, operation):
        raise OSError("no locks available")

    monkeypatch.setattr(lockfile.fcntl, "flock", fail)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="no locks"):
        lockfile.try_acquire(path, create=True)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    "acquire", [lockfile.acquire_fresh, lambda path, t: lockfile.acquire(path, t, create=True)]
)
def test_mutual_exclusion_while_the_file_comes_and_goes(path, acquire):
    inside, collisions = [], []

    def work():
        for _ in range(200):
            lock = acquire(path, WAIT_S)
            inside.append(1)
            if len(inside) != 1:
                collisions.append(1)
            inside.pop()
            lock.remove()
            lock.release()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert not collisions
    assert not os.path.exists(path)
