"""``omni-verify audit`` as a user runs it, in a shared memory of its own."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from omni_verify.audit import namespace
from omni_verify.cli.main import main
from omni_verify.report.audit import audit_schema

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
LEFTOVERS = ("R_1_0", "shm_R_1_0_lockfile.lock", "psm_1")
INTO_PRIVATE_SHM = (
    "import os, sys\n"
    "from omni_verify.audit import namespace\n"
    "namespace.enter()\n"
    "for name in sys.argv[1].split(','):\n"
    "    name and open('/dev/shm/' + name, 'w').write('payload')\n"
    "os.execv(sys.executable, [sys.executable, '-m', 'omni_verify', 'audit', *sys.argv[2:]])"
)


@pytest.fixture
def start(tmp_path, environment):
    """Start ``omni-verify audit ARGS`` where only the given files lie in shared memory."""
    if reason := namespace.available():
        pytest.skip(f"no private /dev/shm here: {reason}")
    started = []

    def go(*args, files=LEFTOVERS, **options):
        command = [sys.executable, "-c", INTO_PRIVATE_SHM, ",".join(files), *args]
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE} | options
        process = subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=environment,
            **options,
        )
        started.append(process)
        return process

    yield go
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def run(start):
    """Run it to its end; returns exit code, stdout, stderr."""

    def go(*args, **options):
        process = start(*args, **options)
        out, err = process.communicate(timeout=100)
        return process.returncode, out, err

    return go


def test_orphans_are_listed_with_the_reason_and_the_exit_code_says_so(run):
    code, out, err = run()
    assert code == 1 and err == ""
    lines = out.splitlines()
    assert lines[0].startswith("orphan: nobody has it open or mapped, and nobody is left")
    assert lines[1].startswith("  segment of R stage 1 chunk 0  7 B, ")
    assert lines[2].startswith("  lock of R stage 1 chunk 0  -, ")
    assert "foreign, never touched: psm_1" in out
    assert "/dev/shm: 0 live, 0 unread, 2 orphan, 1 foreign" in out


def test_nothing_there_is_exit_code_0(run):
    code, out, _ = run(files=())
    assert code == 0 and "/dev/shm: 0 live, 0 unread, 0 orphan, 0 foreign" in out


def test_a_reader_that_goes_early_changes_no_exit_code(start):
    ours, theirs = os.pipe()
    os.close(ours)
    process = start("--json", "x.json", files=("R_1_0",), stdout=theirs)
    os.close(theirs)
    _, err = process.communicate(timeout=100)
    assert (process.returncode, err) == (0, "")


def test_the_json_is_of_its_published_schema(run):
    code, out, _ = run("--json", "-", "--clean", "--yes")
    assert code == 0
    found = json.loads(out)
    jsonschema.validate(found, audit_schema())
    assert found["schema"] == "omni-verify/audit/1"
    assert {e["name"]: (e["judgement"], e["removed"]) for e in found["entries"]} == {
        "R_1_0": ("orphan", True),
        "shm_R_1_0_lockfile.lock": ("orphan", True),
    }
    assert found["foreign"] == ["psm_1"] and found["counts"]["orphan"] == 2


def test_hostile_names_are_shown_as_escapes_and_reported(run):
    files = (os.fsdecode(b"R\n\x1b[31m_1_0"), os.fsdecode(b"caf\xe9"), os.fsdecode(b"\xff\n\x1b]0;own\x07"))
    code, out, err = run("--json", "x.json", files=files)
    assert (code, err) == (0, "")
    assert r"segment of R\n\x1b[31m stage 1 chunk 0" in out
    assert r"foreign, never touched: caf\xe9, \xff\n\x1b]0;own\x07" in out
    assert "\x1b" not in out
    code, out, _ = run("--json", "-", files=files)
    assert code == 0 and json.loads(out)["foreign"] == ["caf\\xe9", "\\xff\n\x1b]0;own\x07"]


def test_the_schema_is_published():
    path = REFERENCE / "audit-schema.json"
    text = json.dumps(audit_schema(), indent=2) + "\n"
    if os.environ.get("OMNI_VERIFY_UPDATE_DOCS"):
        path.write_text(text)
    assert path.read_text() == text, "out of date: OMNI_VERIFY_UPDATE_DOCS=1 pytest tests/cli/test_audit.py"
    page = (REFERENCE / "audit-schema.md").read_text()
    for field in audit_schema()["$defs"]["Document"]["properties"]:
        assert f"`{field}`" in page


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--for", "5s"], ["--for", "--watch"]),
        (["--watch", "--for", "soon"], ["'soon' is not a duration", "30s"]),
        (["--watch", "--for", "0"], ["'0' is not a duration"]),
        (["--yes"], ["--yes", "--clean"]),
        (["--clean"], ["no terminal", "--yes"]),
        (["--pid", "0"], ["--pid"]),
        (["--pid", "me"], ["--pid"]),
        (["--json", "/proc/x/y.json"], ["cannot write"]),
    ],
)
def test_bad_input_is_one_message(args, words, capsys, monkeypatch):
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # the command's own handling of SIGTERM
    assert main(["audit", *args]) == 2
    err = capsys.readouterr().err
    assert "Traceback" not in err
    for word in words:
        assert word in err


@pytest.mark.parametrize(("answer", "left"), [("n\n", 1), ("y\n", 0), ("\x04", 1)])
def test_clean_asks_first(start, answer, left):
    ours, theirs = pty.openpty()
    process = start("--clean", stdin=theirs)
    os.close(theirs)
    os.write(ours, answer.encode())
    out, err = process.communicate(timeout=100)
    os.close(ours)
    assert "Remove these 2 orphans?" in err
    assert process.returncode == left
    assert ("removed R_1_0" in out) is (left == 0)
    assert ("nothing was removed" in err) is (left == 1)


def test_a_watch_shows_what_comes_and_goes_and_ends_with_the_judgement(start):
    process = start("--watch", "--json", "result.json", files=())
    assert "watching /dev/shm" in process.stderr.readline()
    shm = Path(f"/proc/{process.pid}/root/dev/shm")
    for name in ("shm_R_1_0_lockfile.lock", "R_1_0", "shm_R_1_1_lockfile.lock", "R_1_1"):
        (shm / name).write_text("x")
    for name in ("R_1_1", "shm_R_1_1_lockfile.lock"):
        (shm / name).unlink()
    lines = [process.stdout.readline().split("  ") for _ in range(6)]
    assert [line[-3] for line in lines] == ["created"] * 4 + ["removed"] * 2
    assert lines[1][-2:] == ["segment of R stage 1 chunk 0", "R_1_0\n"]
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=100)
    assert process.returncode == 1 and "2 orphan" in out
    assert "2 segments created, 1 removed, 1 present (at most 2)" in err


def test_a_watch_that_is_bounded_ends_by_itself(run):
    code, out, err = run("--watch", "--for", "200ms", files=("psm_1",))
    assert code == 0 and "0 orphan, 1 foreign" in out and "0 segments created" in err


def test_a_server_that_is_not_there_is_said(run):
    code, _, err = run("--pid", "4194303", files=())
    assert code == 0 and "no process 4194303" in err
