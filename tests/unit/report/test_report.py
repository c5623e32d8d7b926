"""Reports: the story of a case, the terminal, JUnit and the table of a matrix."""

import io
import xml.etree.ElementTree as ET

import pytest
from rich.console import Console

from omni_verify.campaign import events
from omni_verify.campaign.matrix import MatrixResult
from omni_verify.campaign.result import GateProblem, RunResult, record_of
from omni_verify.errors import UsageError
from omni_verify.harness.result import CaseResult, Residue
from omni_verify.report import JUnitReporter, TerminalReporter, junit_xml, matrix_lines, story, write_json
from omni_verify.report.story import MAX_ROWS, trace_rows
from omni_verify.targets.protocol import TargetInfo
from omni_verify.trace.event import Event
from omni_verify.verdict import Evidence, Finding, Verdict, judge

INFO = TargetInfo(name="vllm-omni", version="0.28.0", loader="isolated")
ORDER = ("put.enter(R_0_0) < abort.enter(R)", "abort.exit(R) < seg.write.enter(R_0_0)")
POINTS = [
    ("talker", "save.enter", "R"),
    ("producer.save", "put.enter", "R_0_0"),
    ("client", "abort.enter", "R"),
    ("client", "abort.exit", "R"),
    ("producer.save", "seg.write.enter", "R_0_0"),
    ("producer.save", "put.exit", "R_0_0"),
    *[("other", "get.exit", f"X_0_{n}") for n in range(40)],
    *[("producer.save", "idle.save", "")] * 10,
]


def case(case_id="abort/put-in-flight", findings=(), cut="", **more):
    evidence = Evidence(actors=("client",), finished=("client",), orders=ORDER, checked=1, cut=cut)
    verdict, reason = judge(findings, evidence)
    trace = [Event(n, *where) for n, where in enumerate(POINTS)]
    return CaseResult(
        id=case_id,
        verdict=verdict,
        reason=reason,
        findings=list(findings),
        evidence=evidence,
        trace=trace,
        replay=f"omni-verify check --select {case_id}",
        duration_s=0.25,
        **more,
    )


def finding(invariant="I51", message="a segment outlives its request", found="R_0_0"):
    return Finding(
        invariant=invariant, message=message, expected="nothing under /dev/shm", found=found, key="R"
    )


def finished(*cases, gate=None, expected=None):
    verdicts = [c.verdict for c in cases]
    return RunResult(
        command="check",
        target=INFO,
        verdict=Verdict.VIOLATED if Verdict.VIOLATED in verdicts else verdicts[0],
        started="2026-01-01T00:00:00+00:00",
        duration_s=1.0,
        cases=tuple(record_of(c, expected) for c in cases),
        gate=gate,
    )


def test_story_tells_who_did_what_expected_found_and_replay():
    text = "\n".join(story(case(findings=[finding()], residue=Residue(segments=("R_0_0",))), INFO))
    assert text.startswith("I51 violated: a segment outlives its request")
    rows = [line.split() for line in text.splitlines() if line.strip()[:1].isdigit() and "R" in line]
    points = [row[2] for row in rows]
    assert points.index("put.enter") < points.index("abort.enter") < points.index("seg.write.enter")
    for line in (
        "  target     vllm-omni 0.28.0 · SharedMemoryConnector · isolated",
        "  order      put.enter(R_0_0) < abort.enter(R)",
        "  expected   nothing under /dev/shm",
        "  found      R_0_0",
        "  left       1 segment: R_0_0",
        "  replay     omni-verify check --select abort/put-in-flight",
    ):
        assert line in text.splitlines()


def test_rows_are_the_order_first_then_the_keys_involved():
    rows = trace_rows(case(findings=[finding()]))
    assert len(rows) <= MAX_ROWS
    named = {"put.enter", "abort.enter", "abort.exit", "seg.write.enter"}
    assert named <= {e.point for e in rows}
    assert not [e for e in rows if e.key.startswith("X_")], "other requests are not part of the story"
    assert [e.seq for e in rows] == sorted(e.seq for e in rows)


def test_findings_that_differ_in_the_invariant_are_told_once():
    text = "\n".join(
        story(case(findings=[finding("I51"), finding("I31"), finding("I39", "other", "x")]), INFO)
    )
    assert (
        text.count("nothing under /dev/shm") == 2 and "I51, I31" in text and "also       I39: other" in text
    )


def test_inconclusive_story_says_what_is_missing():
    text = "\n".join(story(case(cut="the gate at abort.enter(R) ran out"), INFO))
    assert "missing    the gate at abort.enter(R) ran out" in text


def play(reporter, *cases, expected=None, gate=None):
    reporter.handle(events.TargetLoading(spec="vllm-omni==0.28.0", loader="auto"))
    reporter.handle(
        events.RunStarted(
            command="check", target=INFO, isolation="mount", cases=tuple(c.id for c in cases), jobs=2
        )
    )
    for c in cases:
        reporter.handle(events.CaseStarted(id=c.id))
        reporter.handle(events.CaseFinished(case=c, expected=expected))
    reporter.handle(events.RunFinished(result=finished(*cases, gate=gate, expected=expected)))
    reporter.finish()


def terminal(**options):
    out, err = io.StringIO(), io.StringIO()
    plain = {"highlight": False, "soft_wrap": True, "no_color": True, "force_terminal": False}
    return TerminalReporter(Console(file=out, **plain), Console(file=err, **plain), **options), out, err


def test_terminal_has_one_line_a_case_then_stories_then_the_verdict():
    reporter, out, err = terminal()
    play(reporter, case("abort/a"), case("abort/b", findings=[finding()]))
    lines = out.getvalue().splitlines()
    assert lines[1].split() == ["abort/a", "held", "0.25", "s"]
    assert lines[2].split() == ["abort/b", "VIOLATED", "0.25", "s", "I51"]
    assert lines[-2:] == ["2 scenarios: 1 held, 1 violated in 1.0 s", "verdict: VIOLATED"]
    assert "I51 violated: a segment outlives its request" in lines
    assert err.getvalue() == "loading vllm-omni==0.28.0 ...\n"
    assert "\x1b" not in out.getvalue()


def test_quiet_tells_the_verdict_only():
    reporter, out, err = terminal(verbosity=-1)
    play(reporter, case("abort/b", findings=[finding()]))
    assert out.getvalue().split("\n")[-2] == "verdict: VIOLATED" and len(out.getvalue().splitlines()) <= 3
    assert err.getvalue() == ""


def test_known_failures_are_not_told_again_but_changes_are():
    reporter, out, _ = terminal()
    gate = (GateProblem(kind="stale", id="x/y", message="the entry matches no scenario"),)
    play(reporter, case("abort/b", findings=[finding()]), expected=Verdict.VIOLATED, gate=gate)
    text = out.getvalue()
    assert "known: I51" in text and "expected   nothing" not in text
    assert "stale: x/y: the entry matches no scenario" in text and "1 differ" in text


def test_markup_in_foreign_text_is_not_interpreted():
    reporter, out, _ = terminal()
    play(reporter, case("abort/b", findings=[finding(message="key [red]R[/red] and [/] stay")]))
    assert "key [red]R[/red] and [/] stay" in out.getvalue()


def test_junit_is_one_testcase_a_scenario_with_ids_and_replay(tmp_path):
    path = tmp_path / "deep" / "junit.xml"
    reporter = JUnitReporter(str(path))
    skipped = CaseResult(id="x/skip", verdict=Verdict.NOT_APPLICABLE, reason="it lacks reap")
    play(
        reporter,
        case("x/held"),
        case("x/bad", findings=[finding(message="odd \x00 id")]),
        case("x/cut", cut="no"),
        skipped,
    )
    suite = ET.parse(path).getroot().find("testsuite")
    assert {k: suite.get(k) for k in ("tests", "failures", "errors", "skipped")} == {
        "tests": "4",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
    }
    names = [(c.get("classname"), c.get("name")) for c in suite]
    assert len(set(names)) == 4
    message = suite.find("testcase/failure").get("message")
    assert (
        "I51" in message and "replay: omni-verify check --select x/bad" in message and "\x00" not in message
    )


def test_junit_follows_the_known_failures():
    run = [
        events.CaseFinished(case=case("x/bad", findings=[finding()]), expected=Verdict.VIOLATED),
        events.CaseFinished(case=case("x/held"), expected=Verdict.VIOLATED),
    ]
    suite = ET.fromstring(junit_xml([(INFO, run)])).find("testsuite")
    assert suite.get("failures") == "1" and suite.find("testcase/failure").get("type") == "unexpected_pass"


def test_matrix_table_marks_what_changed():
    gate = (GateProblem(kind="unexpected_violation", id="x/bad", message="it leaks"),)
    result = MatrixResult(
        passed=False,
        runs=(finished(case("x/held"), gate=()), finished(case("x/bad", findings=[finding()]), gate=gate)),
    )
    lines = matrix_lines(result)
    assert any(line.split() == ["x/bad", "violated", "!"] for line in lines)
    assert lines[-1] == "vllm-omni 0.28.0: unexpected violation: x/bad: it leaks"


def test_json_is_written_in_one_step_and_errors_are_told(tmp_path, capsys):
    write_json(str(tmp_path / "a" / "run.json"), {"x": 1})
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["run.json"]
    write_json("-", {"x": 1})
    assert capsys.readouterr().out == '{\n  "x": 1\n}\n'
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write"):
        write_json(str(tmp_path / "file" / "run.json"), {})
