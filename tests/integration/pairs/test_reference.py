"""The reference paired with itself, in two processes, on a private /dev/shm and on the common one."""

import json
import xml.etree.ElementTree as ET

import pytest

from omni_verify.audit import namespace
from omni_verify.cli.main import main
from omni_verify.verdict import Verdict

CASES = ("abort-mid-stream", "payloads", "stream")


@pytest.fixture(scope="module", params=["mount", "prefix"])
def result(request, run_pairs):
    if request.param == "mount" and namespace.available():
        pytest.skip(f"no private mount namespace: {namespace.available()}")
    return run_pairs(["reference"], isolation_mode=request.param)


def test_every_case_holds_on_evidence_of_both_ends(result):
    assert [c.id for c in result.cases] == [f"pair/{name}[reference->reference]" for name in CASES]
    assert {c.verdict for c in result.cases} == {Verdict.HELD} and result.verdict is Verdict.HELD
    assert all(c.replay.endswith(f"--select '{c.id}'") for c in result.cases)


def test_the_reference_leaves_nothing_not_even_what_a_pair_would_tolerate(result):
    assert not result.residue
    assert [f.message for c in result.cases for f in c.side_findings] == []


def test_command_line_writes_json_and_junit(tmp_path, capsys):
    out, junit = tmp_path / "pairs.json", tmp_path / "pairs.xml"
    code = main(
        [
            *("pairs", "--target", "reference", "--select", "pair/stream[reference->reference]"),
            *("--json", str(out), "--junit", str(junit), "--report-dir", str(tmp_path / "reports")),
        ]
    )
    assert code == 0
    written = json.loads(out.read_text())
    assert written["schema"] == "omni-verify/run/1" and written["command"] == "pairs"
    assert [c["verdict"] for c in written["cases"]] == ["held"]
    assert [c.get("name") for c in ET.parse(junit).iter("testcase")] == ["pair/stream[reference->reference]"]
    assert "pair/stream[reference->reference]" in capsys.readouterr().out
