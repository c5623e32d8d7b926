"""The cache of releases: one fetch, verified on use, repaired when damaged, safe between processes.

pip is replaced by a program that copies a wheel made here and counts its runs; the rest is real.
"""

import base64
import hashlib
import os
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest
from packaging.version import Version

from omni_verify.errors import TargetUnusableError, UsageError
from omni_verify.targets.vllm_omni import fetch
from omni_verify.targets.vllm_omni.filelock import exclusive
from omni_verify.targets.vllm_omni.pip_errors import explain, nearest_versions
from omni_verify.targets.vllm_omni.record import is_intact

VERSION = Version("1.2.0")
PIP = """
    import os, shutil, sys
    with open(os.environ["FAKE_PIP_LOG"], "a") as log:
        log.write(" ".join(sys.argv[1:]) + "\\n")
    told = os.environ.get("FAKE_PIP_ERROR")
    if told:
        sys.exit(told)
    into = sys.argv[sys.argv.index("--dest") + 1]
    os.makedirs(into, exist_ok=True)
    shutil.copy(os.environ["FAKE_PIP_WHEEL"], into)
    """


def write_wheel(path, *, lie=False):
    info = "vllm_omni-1.2.0.dist-info"
    files = {
        "vllm_omni/__init__.py": b"",
        "vllm_omni/a.py": b"x = 1\n",
        f"{info}/METADATA": b"Name: vllm-omni\n",
    }
    rows = []
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append(f"{name},sha256={digest},{len(data)}")
            archive.writestr(name, data + (b"#" if lie and name.endswith("a.py") else b""))
        archive.writestr(f"{info}/RECORD", "\n".join([*rows, f"{info}/RECORD,,"]) + "\n")


@pytest.fixture
def pip(tmp_path, monkeypatch):
    """Put the counting pip in front; return its log file."""
    wheel = tmp_path / "vllm_omni-1.2.0-py3-none-any.whl"
    write_wheel(wheel)
    modules = tmp_path / "fake" / "pip"
    modules.mkdir(parents=True)
    (modules / "__init__.py").write_text("")
    (modules / "__main__.py").write_text(textwrap.dedent(PIP))
    log = tmp_path / "pip.log"
    log.write_text("")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "fake"), *filter(None, sys.path)]))
    monkeypatch.setenv("FAKE_PIP_LOG", str(log))
    monkeypatch.setenv("FAKE_PIP_WHEEL", str(wheel))
    monkeypatch.setenv("OMNI_VERIFY_CACHE", str(tmp_path / "cache"))
    return log


def runs(log):
    return len(log.read_text().splitlines())


def leftovers():
    return [p.name for p in fetch.cache_folder().rglob(".fetch-*")]


def test_a_release_is_fetched_once_and_never_into_the_environment(pip):
    root = fetch.fetch(VERSION)
    assert (root / "vllm_omni" / "a.py").read_text() == "x = 1\n"
    assert fetch.fetch(VERSION) == root
    assert runs(pip) == 1
    assert "--no-deps" in pip.read_text()
    assert "install" not in pip.read_text()
    assert root.parent == fetch.cache_folder() / "vllm-omni"
    assert leftovers() == []


@pytest.mark.parametrize("damage", ["change", "delete", "record"])
def test_a_damaged_release_is_fetched_again(pip, damage):
    root = fetch.fetch(VERSION)
    target = root / "vllm_omni" / "a.py"
    if damage == "change":
        target.write_text("x = 2\n")
    elif damage == "delete":
        target.unlink()
    else:
        next(root.glob("*.dist-info/RECORD")).write_bytes(b"\xff\x00,,,,,\n")
    assert not is_intact(root)
    assert (fetch.fetch(VERSION) / "vllm_omni" / "a.py").read_text() == "x = 1\n"
    assert runs(pip) == 2
    assert leftovers() == []


def test_what_a_killed_fetch_left_is_removed(pip):
    stale = fetch.cache_folder() / "vllm-omni" / ".fetch-1.2.0-old"
    stale.mkdir(parents=True)
    fetch.fetch(VERSION)
    assert leftovers() == []


def test_a_wheel_that_contradicts_its_record_is_refused(pip):
    write_wheel(os.environ["FAKE_PIP_WHEEL"], lie=True)
    with pytest.raises(TargetUnusableError, match="contradicts its own RECORD"):
        fetch.fetch(VERSION)
    assert leftovers() == []


def test_concurrent_processes_fetch_once(pip):
    program = f"import sys; sys.path[:] = {sys.path!r}\n" + textwrap.dedent(
        """
        from packaging.version import Version
        from omni_verify.targets.vllm_omni.fetch import fetch
        sys.stdin.read()
        print((fetch(Version("1.2.0")) / "vllm_omni" / "a.py").read_text())
        """
    )
    argv = [sys.executable, "-c", program]
    started = [
        subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    for process in started:
        process.stdin.close()
    told = []
    for process in started:
        with process:
            told.append(process.stdout.read())
    assert told == ["x = 1\n\n"] * 3
    assert runs(pip) == 1


def test_a_missing_version_names_the_nearest(pip, monkeypatch):
    listing = "0.26.0, 0.28.0, 0.29.0rc1, 0.30.0, 0.32.0rc1"
    text = f"ERROR: Could not find a version that satisfies vllm-omni==1.2.0 (from versions: {listing})"
    monkeypatch.setenv("FAKE_PIP_ERROR", text)
    with pytest.raises(
        TargetUnusableError, match=r"no vllm-omni==1\.2\.0.*Nearest: 0\.30\.0, 0\.32\.0rc1"
    ) as raised:
        fetch.fetch(VERSION)
    assert "newest: 0.32.0rc1" in str(raised.value)
    assert leftovers() == []


def test_a_cache_that_cannot_be_written_says_which_variable_helps(pip, monkeypatch, tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("")
    monkeypatch.setenv("OMNI_VERIFY_CACHE", str(blocker / "cache"))
    with pytest.raises(TargetUnusableError, match="OMNI_VERIFY_CACHE"):
        fetch.fetch(VERSION)


def test_other_failures_repeat_what_pip_said():
    assert "ensurepip" in str(explain("vllm-omni", VERSION, "/usr/bin/python: No module named pip"))
    offline = explain("vllm-omni", VERSION, "WARNING: x\nERROR: no route to host (from versions: none)")
    assert "no route to host" in str(offline)
    assert "network" in str(offline)


def test_nearest_versions_are_two_on_either_side():
    known = [Version(v) for v in ("0.1", "0.2", "0.3", "0.5", "0.6", "0.7")]
    assert [str(v) for v in nearest_versions(Version("0.4"), known)] == ["0.2", "0.3", "0.5", "0.6"]
    assert [str(v) for v in nearest_versions(Version("9"), known)] == ["0.6", "0.7"]


def test_only_exact_versions_are_taken():
    with pytest.raises(UsageError, match="not a version"):
        fetch.parse_version(">=0.30")


def test_the_cache_follows_the_variables(monkeypatch, tmp_path):
    monkeypatch.delenv("OMNI_VERIFY_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert fetch.cache_folder() == tmp_path / "omni-verify"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert fetch.cache_folder() == Path.home() / ".cache" / "omni-verify"


def test_a_lock_that_stays_held_ends_with_an_error(tmp_path):
    path = tmp_path / "lock"
    held = pytest.raises(TargetUnusableError, match="another process has held")
    with exclusive(path, 1.0), held, exclusive(path, 0.01):
        pytest.fail("two holders")
    with exclusive(path, 0.01):
        assert path.exists()
