"""``omni-verify kills``: lines, exit codes and JSON, over cells that are given."""

import json
import signal

import pytest

from omni_verify.campaign.kills import result as kill_result
from omni_verify.campaign.kills.matrix import Cell
from omni_verify.cli.main import main
from omni_verify.errors import OmniVerifyError, TargetUnusableError

ORPHANS = ("orphan segment R_1_0", "orphan segment R_1_1", "orphan fifo w/1_x")
STAGE = Cell(phase="mid-stream", victim="stage1", pids=(7,), served=True, seconds=7.25)
EVERYBODY = Cell(phase="mid-stream", victim="all", pids=(7, 8), left=ORPHANS, removed=3, served=True)
WRONG = Cell(phase="mid-stream", victim="all", pids=(7,), served=True, problems=("still there: R_1_0",))


@pytest.fixture
def kills(monkeypatch, capsys):
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # the command's own handling of SIGTERM

    def go(*args, events=(STAGE, EVERYBODY)):
        def matrix(plan, emit):
            for event in events:
                if isinstance(event, BaseException):
                    raise event
                emit(event)

        monkeypatch.setattr(kill_result, "kill_matrix", matrix)
        code = main(["kills", *args])
        return code, *capsys.readouterr()

    return go


def test_a_line_a_cell_and_the_verdict(kills):
    code, out, err = kills()
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split()[:5] == ["mid-stream", "stage1", "held", "7.2", "s"]
    assert "left: nothing; the next request was served" in lines[0]
    assert "left: 1 orphan fifo, 2 orphan segment; 3 removed; the next request was served" in lines[1]
    assert lines[2].startswith("2 of 2 cells in ") and lines[2].endswith(": 2 held, 0 violated")
    assert lines[3] == "verdict: held"
    assert kills("--quiet")[1] == "verdict: held\n"


@pytest.mark.parametrize(
    ("events", "code", "words"),
    [
        ((STAGE, WRONG), 1, ["mid-stream/all: I53 still there: R_1_0", "verdict: VIOLATED"]),
        ((STAGE,), 3, ["mid-stream/all", "1 of 2 cells", "verdict: INCONCLUSIVE"]),
        ((STAGE, OmniVerifyError("waited in vain")), 3, ["waited in vain", "verdict: INCONCLUSIVE"]),
        ((STAGE, KeyboardInterrupt()), 130, ["ended by SIGINT", "verdict: INCONCLUSIVE"]),
        ((WRONG, KeyboardInterrupt("SIGTERM")), 143, ["ended by SIGTERM", "verdict: VIOLATED"]),
    ],
)
def test_exit_codes(kills, events, code, words):
    found, out, _ = kills(events=events)
    assert found == code
    for word in words:
        assert word in out


def test_what_cannot_be_run_is_one_message(kills):
    assert kills("ful")[0::2] == (
        2,
        "omni-verify: unknown plan 'ful'. Did you mean 'full'? Valid: full, quick.\n",
    )
    code, _, err = kills(events=(TargetUnusableError("the kill matrix needs a private /dev/shm"),))
    assert code == 4 and "private /dev/shm" in err


def test_json_on_stdout_is_alone_there(kills):
    code, out, err = kills("--json", "-", events=(STAGE, WRONG))
    found = json.loads(out)
    assert (code, found["schema"], found["verdict"]) == (1, "omni-verify/kills/1", "violated")
    assert [c["victim"] for c in found["cells"]] == ["stage1", "all"]
    assert found["findings"][0]["key"] == "mid-stream/all"
    assert "verdict: VIOLATED" in err
