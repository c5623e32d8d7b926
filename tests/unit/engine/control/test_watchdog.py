"""One thread watches all searches of a process, and is gone when there is nothing to watch."""

import os
import threading

from omni_verify.engine.control import Scheduler
from omni_verify.engine.control.watchdog import watch


def guards():
    return [t for t in threading.enumerate() if t.name == "omni-verify-watchdog"]


def test_searches_share_a_thread():
    with watch(Scheduler(), 30):
        (first,) = guards()
        with watch(Scheduler(), 20):
            assert guards() == [first]
    with watch(Scheduler(), 30):
        assert guards() == [first]


def test_idle_thread_ends_by_itself():
    with watch(Scheduler(), 0.02):
        pass
    for guard in guards():
        guard.join(30)
    assert guards() == []


def test_idle_thread_ends_before_a_fork_and_a_child_watches_anew():
    with watch(Scheduler(), 30):
        pass
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        before = len(guards())
        with watch(Scheduler(), 30):
            os.write(write, bytes([before, len(guards())]))
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert os.read(read, 2) == bytes([0, 1])
    assert guards() == []
    os.close(read)
    os.close(write)
