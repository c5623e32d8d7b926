"""A private /dev/shm: empty, limited, invisible from outside, and refused with a reason."""

import ctypes
import os
import threading
import uuid

import pytest

from omni_verify.audit import namespace
from omni_verify.errors import TargetUnusableError

pytestmark = pytest.mark.skipif(namespace.available() is not None, reason=str(namespace.available()))


def in_child(body):
    """Run `body` in a forked child and return what it returned as text, or its exception's text."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            text = str(body())
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answers:
        text = answers.read()
    os.waitpid(pid, 0)
    return text


def test_it_is_empty_and_what_happens_inside_stays_inside():
    name = f"/dev/shm/ov-ns-{uuid.uuid4().hex}"

    def body():
        namespace.enter()
        before = os.listdir("/dev/shm")
        with open(name, "w") as file:
            file.write("x")
        return before, os.path.exists(name)

    assert in_child(body) == "([], True)"
    assert not os.path.exists(name)


def test_size_limit_gives_enospc():
    def body():
        namespace.enter("size=64k")
        with open("/dev/shm/big", "wb", buffering=0) as file:
            os.posix_fallocate(file.fileno(), 0, 1 << 20)

    assert "No space left" in in_child(body)


def test_inode_limit_gives_enospc():
    def body():
        namespace.enter("nr_inodes=2")
        for name in "ab":
            open(f"/dev/shm/{name}", "w").close()

    assert "No space left" in in_child(body)


def test_a_bad_mount_option_is_named():
    assert "size=lots" in in_child(lambda: namespace.enter("size=lots"))


def test_a_process_with_threads_is_refused():
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        with pytest.raises(TargetUnusableError, match="threads"):
            namespace.enter()
    finally:
        stop.set()
        thread.join()


def test_a_thread_that_has_ended_but_is_still_listed_is_waited_for(monkeypatch):
    """As the watchdog of faulthandler is on a busy machine, a moment after it was cancelled."""
    real, looks = os.listdir, []

    def late(path):
        looks.append(path)
        return ["1", "2"] if len(looks) < 4 else real(path)

    def body():
        monkeypatch.setattr(namespace.os, "listdir", late)
        namespace.enter()
        return len(looks)

    assert in_child(body) == "4"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody without rights")
def test_an_ordinary_user_gets_one_through_a_user_namespace():
    def body():
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # dumpable again, as a process that never was root is
        namespace.enter("size=64k")
        return os.listdir("/dev/shm"), os.getuid()

    text = in_child(body)
    if "unshare" in text:
        pytest.skip(text)
    assert text == "([], 65534)"


def test_the_reason_is_one_line_when_the_kernel_refuses(monkeypatch):
    class Refusing:
        def unshare(self, flags):
            ctypes.set_errno(1)
            return -1

    monkeypatch.setattr(namespace.ctypes, "CDLL", lambda *a, **k: Refusing())
    monkeypatch.setattr(namespace.os, "listdir", lambda path: ["1"])
    with pytest.raises(TargetUnusableError, match=r"unshare.*Operation not permitted"):
        namespace.enter()
