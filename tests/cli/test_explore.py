"""The commands explore, replay, minimize and promote: exit codes and refusals."""

import json
import re
from pathlib import Path

import pytest

from omni_verify.cli.main import main

PROGRAMS = """
import threading


def lost_update():
    box = [0]
    def add():
        box[0] = box[0] + 1
    run(add, add)
    assert box[0] == 2, "lost"


def deadlock():
    a, b = threading.Lock(), threading.Lock()
    def one():
        with a:
            with b:
                pass
    def two():
        with b:
            with a:
                pass
    run(one, two)


def sound():
    lock, box = threading.Lock(), [0]
    def add():
        with lock:
            box[0] = box[0] + 1
    run(add, add)
    assert box[0] == 2, "lost"


def run(*bodies):
    threads = [threading.Thread(target=body, name=f"t{i}") for i, body in enumerate(bodies)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


@pytest.fixture
def cli(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    Path("programs.py").write_text(PROGRAMS)

    def run(*argv: str) -> tuple[int, str, str]:
        code = main(list(argv))
        said = capfd.readouterr()
        return code, said.out, said.err

    return run


def token_of(text: str) -> str:
    found = re.search(r"omni-verify replay (ov1\.\S+)", text)
    assert found, text
    return found[1]


def test_a_race_is_found_replayed_on_both_carriers_and_refused_elsewhere(cli):
    code, out, _ = cli("explore", "programs.py:lost_update", "--report-dir", "runs")
    assert code == 1
    token = token_of(out)
    traces = set()
    for carrier in ("greenlet", "thread"):
        code, out, _ = cli(
            "replay", token, "--program", "programs.py:lost_update", "--times", "10", "--carrier", carrier
        )
        assert (code, "10/10 VIOLATED, the same trace" in out) == (1, True), out
        traces.add(re.search(r"trace +(\S+)", out)[1])
    assert len(traces) == 1
    code, _, err = cli("replay", token, "--program", "programs.py:sound")
    assert (code, "another program" in err) == (2, True)
    code, _, err = cli("replay", token[:-3], "--program", "programs.py:lost_update")
    assert (code, "damaged" in err) == (2, True)
    code, _, err = cli("replay", token)
    assert (code, "--program FILE.py:FUNCTION" in err) == (2, True)
    assert cli("replay", "runs/latest/failure-1.json")[0] == 1
    assert cli("minimize", token, "--program", "programs.py:lost_update")[0] == 1


def test_a_fixed_program_exits_0_and_a_changed_one_says_where_it_diverged(cli):
    _, out, _ = cli("explore", "programs.py:lost_update", "--no-store")
    token = token_of(out)
    Path("programs.py").write_text(PROGRAMS.replace('assert box[0] == 2, "lost"', "box[0]", 1))
    code, out, _ = cli("replay", token, "--program", "programs.py:lost_update")
    assert (code, out.startswith("FIXED")) == (0, True), out
    alone = PROGRAMS.replace("run(add, add)", "run(add)", 1).replace(
        'assert box[0] == 2, "lost"', "box[0]", 1
    )
    Path("programs.py").write_text(alone)
    code, out, _ = cli("replay", token, "--program", "programs.py:lost_update")
    assert (code, out.startswith("DIVERGED")) == (3, True), out
    assert re.search(r"step +\d+\n +expected +\S.*\n +got +\S", out)
    Path("programs.py").write_text(PROGRAMS.replace('2, "lost"', '3, "never"', 1))
    code, out, _ = cli("replay", token, "--program", "programs.py:lost_update")
    assert (code, out.startswith("ERROR")) == (3, True), out


def test_a_deadlock_is_told_with_its_wait_for_graph(cli):
    code, out, _ = cli("explore", "programs.py:deadlock", "--no-store")
    assert code == 1
    assert "cycle: t0 -> t1 -> t0" in out
    assert "held by t1" in out


def test_held_says_how_far_it_looked(cli):
    code, out, _ = cli("explore", "programs.py:sound", "--no-store", "--budget", "50")
    assert (code, "held within the budget" in out) == (0, True)
    code, out, _ = cli("explore", "programs.py:sound", "--no-store", "--strategy", "exhaustive1")
    assert (code, "complete: all schedules with at most 1 preemption" in out) == (0, True), out


def test_the_result_does_not_depend_on_the_number_of_workers(cli):
    answers = []
    for workers in ("1", "3"):
        options = ("--no-store", "--budget", "600", "--find-all", "--workers", workers, "--json", "run.json")
        assert cli("explore", "programs.py:lost_update", *options)[0] == 1
        run = json.loads(Path("run.json").read_text())
        answers.append([run["failures"], [p["schedules"] for p in run["programs"]]])
    assert answers[0] == answers[1]


def test_a_checkpoint_is_resumed(cli):
    options = ("explore", "programs.py:sound", "--no-store", "--budget", "300", "--checkpoint", "c.jsonl")
    assert cli(*options)[0] == 0
    before = Path("c.jsonl").read_bytes()
    assert cli(*options, "--resume")[0] == 0
    assert Path("c.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (("programs.py:nothing",), 2, "unknown function"),
        (("missing.py:f",), 2, "no such file"),
        (("programs.py:sound", "--strategy", "luck"), 2, "unknown strategy"),
        (("programs.py:sound", "--granularity", "fine"), 2, "unknown granularity"),
        (("programs.py:sound", "--budget", "0"), 2, "at least 1"),
        (("programs.py:sound", "--time", "soon"), 2, "--time"),
        (("programs.py:sound", "--resume"), 2, "--checkpoint"),
        (("nothing/*",), 5, "no scenario matches"),
    ],
)
def test_refusals(cli, argv, code, said):
    got, _, err = cli("explore", *argv, "--no-store")
    assert (got, said in err) == (code, True), err
