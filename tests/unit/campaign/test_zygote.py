"""The zygote: what crashes, hangs or leaves objects in a case never reaches the next one."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from omni_verify.campaign import isolation
from omni_verify.errors import TargetUnusableError, UsageError
from omni_verify.settings import Settings
from omni_verify.verdict import Verdict

pytestmark = pytest.mark.usefixtures("catalogue")


def facts(case):
    return dict(part.split("=") for part in case.log[0].split())


def wait_gone(pid):
    """Wait, bounded, until a process has ended."""
    for _ in range(200):
        if not Path(f"/proc/{pid}").exists() or "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text():
            return
        time.sleep(0.05)
    raise AssertionError(f"process {pid} lives")


@pytest.fixture
def zygote(make_zygote):
    zygote = make_zygote()
    zygote.start()
    return zygote


def test_cases_are_forked_from_one_loaded_process(zygote):
    first, second = facts(zygote.run("fake/held")), facts(zygote.run("fake/held-too"))
    assert first["loaded"] == second["loaded"] and first["pid"] != second["pid"]
    assert first["prefix"] != second["prefix"]


def test_result_carries_verdict_trace_and_replay(zygote):
    case = zygote.run("fake/violated")
    assert case.verdict is Verdict.VIOLATED and case.findings[0].invariant == "I51"
    assert [e.point for e in case.trace] == ["abort.enter", "put.enter"]
    assert case.replay == "omni-verify check --target 'fake' --select fake/violated"


def test_crash_is_a_finding_that_names_the_signal(zygote):
    case = zygote.run("fake/crash")
    assert case.verdict is Verdict.VIOLATED
    assert case.findings[0].invariant == "I27b" and "SIGSEGV" in case.findings[0].message
    assert "fake_target.py" in case.stacks
    assert zygote.run("fake/held").verdict is Verdict.HELD


def test_process_that_ends_without_result_is_a_finding(zygote):
    case = zygote.run("fake/exits")
    assert case.verdict is Verdict.VIOLATED and "status 0" in case.findings[0].found


@pytest.mark.parametrize(
    ("name", "word"),
    [("killed", "SIGKILL"), ("raises", "a defect of the runner"), ("garbage", "does not decode")],
)
def test_what_says_nothing_about_the_target_is_inconclusive(zygote, name, word):
    case = zygote.run(f"fake/{name}")
    assert case.verdict is Verdict.INCONCLUSIVE and word in case.reason


def test_hang_is_ended_with_stacks_and_its_peers(make_zygote):
    with make_zygote(settings=Settings(case_s=3), isolation="prefix") as zygote:
        case = zygote.run("fake/hang")
        assert case.verdict is Verdict.INCONCLUSIVE and "OMNI_VERIFY_CASE_S" in case.reason
        assert case.stacks.count("fake_target.py") == 2, "the stacks of the case and of its peer"
        assert not list(Path("/dev/shm").glob(f"*{zygote.prefix}*")), "swept while the zygote still lives"


def test_prefix_mode_sweeps_after_each_case(make_zygote):
    with make_zygote(isolation="prefix") as zygote:
        assert facts(zygote.run("fake/leaves"))["isolation"] == "prefix"
        assert not list(Path("/dev/shm").glob(f"*{zygote.prefix}*"))


def test_mount_mode_keeps_the_common_directory_untouched(make_zygote):
    with make_zygote() as zygote:
        if zygote.isolation != "mount":
            pytest.skip(f"no private mount namespace: {zygote.isolation_reason}")
        before = sorted(os.listdir("/dev/shm"))
        assert facts(zygote.run("fake/leaves"))["isolation"] == "mount"
        assert [n for n in sorted(os.listdir("/dev/shm")) if zygote.prefix in n and n not in before] == []


def test_close_ends_running_cases_and_sweeps(make_zygote, catalogue):
    zygote = make_zygote(isolation="prefix")
    zygote.start()
    future = zygote.submit_case(catalogue["fake/hang"])
    root = Path("/dev/shm")
    for _ in range(200):
        if list(root.glob(f"*{zygote.prefix}*")):
            break
        time.sleep(0.05)
    zygote.close()
    assert not list(root.glob(f"*{zygote.prefix}*"))
    with pytest.raises(TargetUnusableError):
        future.result(timeout=10)
    with pytest.raises(TargetUnusableError):
        zygote.run("fake/held")


def test_killed_zygote_fails_its_cases_and_leaves_nothing(make_zygote, catalogue):
    zygote = make_zygote(isolation="prefix")
    zygote.start()
    holder = int(facts(zygote.run("fake/held"))["loaded"])
    future = zygote.submit_case(catalogue["fake/hang"])
    os.kill(holder, signal.SIGKILL)
    with pytest.raises(TargetUnusableError, match="SIGKILL"):
        future.result(timeout=10)
    wait_gone(holder)


def test_a_case_whose_zygote_has_ended_before_it_could_ask_ends_too():
    """The parent's pid is noted before the fork: who adopted the child is nobody to wait for."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait(30)
    child = os.fork()
    if child == 0:
        isolation.die_with_parent(gone.pid)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def test_unforkable_target_gets_a_fresh_interpreter_per_case(make_zygote):
    with make_zygote("fake@unforkable") as zygote:
        first, second = facts(zygote.run("fake/held")), facts(zygote.run("fake/held"))
    assert first["loaded"] == first["pid"] != second["loaded"] == second["pid"]


@pytest.mark.parametrize(
    ("spec", "error", "text"),
    [
        ("fale", UsageError, "Did you mean 'fake'"),
        ("fake==9", TargetUnusableError, "no release 9"),
        ("fake@raise", TargetUnusableError, "ImportError: no module named 'nothing'"),
        ("fake@exit", TargetUnusableError, "exit status 9"),
    ],
)
def test_target_that_cannot_be_had(make_zygote, spec, error, text):
    with pytest.raises(error, match=re.escape(text)):
        make_zygote(spec).start()


def test_load_is_bounded(make_zygote):
    with pytest.raises(TargetUnusableError, match="OMNI_VERIFY_LOAD_S"):
        make_zygote("fake@hang", settings=Settings(load_s=1)).start()


def test_two_zygotes_share_one_namespace(make_zygote):
    with make_zygote() as zygote:
        if zygote.isolation != "mount":
            pytest.skip(f"no private mount namespace: {zygote.isolation_reason}")
        mine = os.getpid()
        with make_zygote("fake==2", namespace_of=mine) as other:
            assert zygote.run("fake/held").verdict is Verdict.HELD
            other.run("fake/leaves")
            left = list(Path("/dev/shm").glob(f"*{other.prefix}*"))
            for path in left:
                path.unlink()
            assert len(left) == 1, "the job ran in the namespace of this very process"
