"""Commands, exit codes, streams and files of the command line."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ENTRY = '[[known_failure]]\nid = "fake/violated"\ntarget = "fake"\nreason = "r."\nlink = "W1"\n'
FAKE = ("--target", "fake", "--no-store")


def one_message(done, code, *words):
    """A user's error is one message on stderr, without a traceback, and nothing on stdout."""
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr and done.stdout == ""
    for word in words:
        assert word in done.stderr


def test_version(omni):
    assert re.fullmatch(r"omni-verify \d+\.\d+\.\d+ \(Python 3\.\d+\.\d+\)\n", omni("--version").stdout)


def test_mistyped_command_and_option_are_suggested(omni):
    one_message(omni("chek"), 2, "No such command 'chek'", "check")
    one_message(omni("check", "--tagret", "x"), 2, "--tagret", "--target")


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["check", "--target", "refrence"], 2, ["unknown target 'refrence'", "'reference'"]),
        (["check", "--select", "abort/put-in-fligt"], 2, ["Did you mean 'abort/put-in-flight'"]),
        (["check", "--select", "nothing/*"], 5, ["no scenario matches 'nothing/*'"]),
        (["check", "--isolation", "mont"], 2, ["Did you mean 'mount'"]),
        (["check", "--jobs", "0"], 2, ["--jobs"]),
        (["check", "--known-failures", "none.toml"], 2, ["none.toml", "No such file"]),
        (["check", "--target", "vllm-omni@/nonexistent"], 4, ["/nonexistent"]),
        (["check", "--target", "vllm-omni==abc"], 2, ["'abc' is not a version"]),
        (["list", "scenario"], 2, ["Did you mean 'scenarios'"]),
        (["matrix"], 2, ["at least one --version"]),
    ],
)
def test_bad_input_is_one_message(omni, args, code, words):
    store = ["--no-store"] if args[0] != "list" else []
    done = omni(*args, *store)
    done.stderr = re.sub(r"^loading .*\n", "", done.stderr)
    one_message(done, code, *words)


def test_bad_bound_is_one_message(omni):
    one_message(omni("check", "--no-store", OMNI_VERIFY_CASE_S="soon"), 2, "OMNI_VERIFY_CASE_S", "'soon'")


@pytest.mark.parametrize(
    ("select", "options", "code"),
    [
        (["fake/held*"], [], 0),
        (["fake/held", "fake/violated"], [], 1),
        (["fake/held", "fake/cut"], [], 3),
        (["fake/held", "fake/cut"], ["--allow-inconclusive"], 0),
        (["fake/violated", "fake/cut"], ["--allow-inconclusive"], 1),
        (["fake/crash"], [], 1),
    ],
)
def test_exit_codes(fake_omni, select, options, code):
    globs = [part for glob in select for part in ("--select", glob)]
    assert fake_omni("check", *FAKE, *globs, *options).returncode == code


def test_streams_and_files(fake_omni, tmp_path):
    done = fake_omni(
        "check",
        "--target",
        "fake",
        "-k",
        "fake/held",
        "-k",
        "fake/violated",
        "--json",
        "out/run.json",
        "--junit",
        "out/junit.xml",
    )
    assert "loading fake" in done.stderr and "loading" not in done.stdout
    assert done.stdout.splitlines()[-1] == "verdict: VIOLATED"
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    assert (
        run["schema"] == "omni-verify/run/1"
        and run["verdict"] == "violated"
        and run["target"]["name"] == "fake"
    )
    assert len(ET.parse(tmp_path / "out" / "junit.xml").getroot().findall(".//testcase")) == 2
    latest = tmp_path / "reports" / "latest"
    assert json.loads((latest / "result.json").read_text()) == run
    assert f"evidence   reports/{latest.resolve().name}/cases/fake-violated" in done.stdout


def test_json_on_stdout_is_alone_there(fake_omni):
    done = fake_omni("check", *FAKE, "-k", "fake/violated", "--json", "-")
    assert json.loads(done.stdout)["cases"][0]["id"] == "fake/violated"
    assert "verdict: VIOLATED" in done.stderr


def test_known_failures_decide_the_exit_code(fake_omni, tmp_path):
    (tmp_path / "known.toml").write_text(ENTRY)
    run = ("check", *FAKE, "-k", "fake/held", "-k", "fake/violated", "--known-failures", "known.toml")
    assert fake_omni(*run).returncode == 0
    (tmp_path / "known.toml").write_text(ENTRY.replace("violated", "held"))
    done = fake_omni(*run)
    assert done.returncode == 1 and "unexpected pass: fake/held" in done.stdout


def test_matrix_table_and_exit_code(fake_omni, tmp_path):
    (tmp_path / "known.toml").write_text(f'{ENTRY}versions = ["==1"]\n')
    run = (
        "matrix",
        "--no-store",
        "-k",
        "fake/violated",
        "--known-failures",
        "known.toml",
        "--target",
        "fake==1",
    )
    assert fake_omni(*run).returncode == 0
    done = fake_omni(*run, "--target", "fake==2", "--json", "-")
    assert done.returncode == 1 and re.search(
        r"fake/violated +violated +violated !", done.stderr + done.stdout
    )


def test_strict_refuses_what_does_not_apply(omni):
    run = ("check", "--no-store", "-k", "put/shm-full", "--isolation", "prefix")
    done = omni(*run)
    assert done.returncode == 3 and "not applicable" in done.stdout, "nothing was executed"
    run = (*run, "-k", "put/enospc")
    assert omni(*run).returncode == 0
    assert omni(*run, "--strict").returncode == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interruption_leaves_nothing_and_says_so(environment, tmp_path, number):
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "fake_cli",
            "check",
            "--no-store",
            "--target",
            "fake",
            "-k",
            "fake/hang",
            "-k",
            "fake/held",
            *("--isolation", "prefix", "--jobs", "1", "--json", "run.json"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**environment, "OV_TEST_MARK": str(tmp_path)},
    )
    hanging = tmp_path / "hanging"
    for _ in range(1200):
        if hanging.exists() or process.poll() is not None:
            break
        time.sleep(0.05)
    made = hanging.read_text()
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number, err
    assert f"interrupted by {number.name}" in out and "Traceback" not in err
    assert json.loads((tmp_path / "run.json").read_text())["interrupted"] == number.name
    assert made not in os.listdir("/dev/shm")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interruption_while_the_target_loads_is_told_too(environment, tmp_path, number):
    process = subprocess.Popen(
        [sys.executable, "-m", "fake_cli", "check", "--no-store", "--target", "fake@hang"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment,
    )
    assert "loading" in process.stderr.readline()
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (128 + number, "")
    assert err.strip() == f"omni-verify: interrupted by {number.name}"


def test_killed_campaign_takes_its_processes_along(environment, tmp_path):
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "fake_cli",
            "check",
            "--no-store",
            "--target",
            "fake",
            "-k",
            "fake/hang",
            "--isolation",
            "prefix",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=tmp_path,
        env={**environment, "OV_TEST_MARK": str(tmp_path)},
    )

    def relatives():
        found = []
        for path in Path("/proc").iterdir():
            if path.name.isdigit() and int(path.name) != os.getpid():
                try:
                    if f"OV_TEST_MARK={tmp_path}".encode() in (path / "environ").read_bytes():
                        found.append(int(path.name))
                except OSError:
                    continue
        return found

    for _ in range(600):
        if len(relatives()) >= 4:  # campaign, zygote, case, its peer
            break
        time.sleep(0.05)
    process.kill()
    process.wait()
    for _ in range(600):
        if not relatives():
            return
        time.sleep(0.05)
    raise AssertionError(f"processes outlive the campaign: {relatives()}")


@pytest.mark.parametrize("kind", ["scenarios", "invariants", "points", "targets", "weak-spots"])
def test_list(omni, kind):
    rows = json.loads(omni("list", kind, "--json", "-").stdout)
    lines = omni("list", kind).stdout.splitlines()
    assert len(rows) == len(lines) and all(
        line.startswith(row["id"]) for row, line in zip(rows, lines, strict=True)
    )
    wanted = {
        "scenarios": "abort/put-in-flight",
        "invariants": "I29",
        "points": "put.enter",
        "targets": "reference",
    }
    assert wanted.get(kind, "W3") in [row["id"] for row in rows]


def test_doctor(omni):
    done = omni("doctor")
    assert done.returncode == 0, done.stdout
    assert {line.split()[1] for line in done.stdout.splitlines() if not line.lstrip().startswith("fix:")} == {
        "python",
        "shm",
        "namespace",
        "torch",
        "packages",
        "pip",
        "cache",
    }


def test_doctor_fails_with_the_fix(monkeypatch, tmp_path, capsys):
    from omni_verify.cli import doctor, main

    monkeypatch.setattr(doctor, "SHM", tmp_path / "none")
    previous = signal.getsignal(signal.SIGTERM)
    try:
        assert main.main(["doctor"]) == 4
    finally:
        signal.signal(signal.SIGTERM, previous)
    assert "fix: mount a tmpfs" in capsys.readouterr().out


def test_internal_error_is_a_short_report(fake_omni, tmp_path, environment):
    program = (
        "import importlib, sys\nfrom omni_verify.cli.main import main\n"
        "importlib.import_module('omni_verify.cli.check').campaign = lambda *a, **k: 1 / 0\nsys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "check", "--no-store"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
    )
    assert done.returncode == 70 and "Traceback" not in done.stderr
    path = re.search(r"file (\S+)$", done.stderr.strip())[1]
    assert "ZeroDivisionError" in Path(path).read_text()


@pytest.mark.parametrize(
    ("program", "args"), [("omni_verify", ["list", "scenarios"]), ("fake_cli", ["check", *FAKE])]
)
def test_output_that_finds_no_room_is_one_message(tmp_path, environment, program, args):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", program, *args],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=environment,
            timeout=250,
            check=False,
        )
    assert done.returncode == 4, done.stderr
    assert "Make room" in done.stderr and "Traceback" not in done.stderr
    assert not list(tmp_path.glob("omni-verify-bug*"))
