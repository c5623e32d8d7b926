"""Progress of a soak as plain lines and as a live table, and its end as text."""

import io
import re

import pytest
from rich.console import Console

from omni_verify.audit.series import Sample
from omni_verify.campaign.soak.ledger import Counts
from omni_verify.campaign.soak.load import Progress
from omni_verify.campaign.soak.options import SoakOptions
from omni_verify.campaign.soak.record import Leak, Point, Summary
from omni_verify.checks.trend.report import TrendReport
from omni_verify.checks.trend.settings import TrendSettings
from omni_verify.harness.result import CaseResult
from omni_verify.report.soak.progress import SoakProgress, progress_line, soak_lines
from omni_verify.targets.protocol import TargetInfo
from omni_verify.verdict import Finding, Verdict


def progress(phase="load", **figures):
    sample = Sample(
        seconds=75.0,
        phase=phase,
        started=1200,
        completed=900,
        aborted=280,
        failed=4,
        figures={"stage0.rss": 200 * 2**20, "shm.segments": 7.0, **figures},
    )
    return Progress(
        phase=phase, progress=0.25, elapsed_s=3675.0, rate=99.6, sample=sample, flying=16, findings=2
    )


def test_a_line_says_where_the_soak_is():
    line = progress_line(progress(**{"latency.first_audio.p99": 0.0123}))
    for part in ("1:01:15 load 25%", "1,200 requests (100/s)", "280 left", "4 failed", "stage0 200.0"):
        assert part in line
    assert "segments 7" in line and "first audio p99 12 ms" in line and "2 findings" in line


def shown(monkeypatch, *, terminal, ci, phases=("load", "load", "idle"), quiet=False):
    monkeypatch.delenv("CI", raising=False)
    if ci:
        monkeypatch.setenv("CI", "1")
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=200, highlight=False)
    with SoakProgress(console, quiet=quiet) as view:
        for phase in phases:
            view.tell(progress(phase))
    return out.getvalue()


@pytest.mark.parametrize("width", [20, 40, 71])
def test_a_narrow_terminal_shows_all_of_it(width):
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=width, highlight=False)
    with SoakProgress(console) as view:
        view.tell(progress(**{"stage0.heap_used": 9e6}))
    words = " ".join(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue()).split())
    assert "1:01:15 load 25%" in words and "findings" in words and "…" not in words


def test_a_terminal_that_cannot_move_its_cursor_gets_lines(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    assert shown(monkeypatch, terminal=True, ci=False).count("1,200 requests (100/s)") == 2


@pytest.mark.parametrize("ci", [False, True])
def test_plain_lines_come_now_and_then_and_at_each_new_phase(monkeypatch, ci):
    text = shown(monkeypatch, terminal=ci, ci=ci)
    assert text.count("1,200 requests (100/s)") == 2 and "\x1b[2K" not in text


def test_a_terminal_gets_a_live_table_and_quiet_nothing(monkeypatch):
    assert "in flight" in shown(monkeypatch, terminal=True, ci=False)
    assert shown(monkeypatch, terminal=True, ci=False, quiet=True) == ""


def summary(**more):
    values = {
        "target": TargetInfo(name="vllm-omni", version="0.28.0"),
        "options": SoakOptions(requests=1200),
        "counts": Counts(
            started=1200, completed=900, aborted=300, strikes={"sigkill": 2}, deaths=2, restarts=2
        ),
        "elapsed_s": 90.0,
        "rate": 13.3,
        "leak": Leak(),
        "unread_per_abort": 3.9,
        "latency": {"first_audio": {"p50": 0.001, "p99": 0.01, "p99.9": 0.02, "count": 900.0}},
        "points": (Point(started=600, aborted=150), Point(started=1200, aborted=300)),
        "phases": ("load",),
    }
    return Summary(**{**values, **more})


def text_of(made, *findings, interrupted=""):
    trend = TrendReport(
        verdict=Verdict.INCONCLUSIVE,
        reason="too short",
        sentences=(),
        findings=(),
        judgements=(),
        fits=(),
        settings=TrendSettings(),
    )
    verdict = Verdict.VIOLATED if findings else Verdict.INCONCLUSIVE
    case = CaseResult(id="soak/residue", verdict=verdict, findings=list(findings))
    return "\n".join(soak_lines([case], made, trend, verdict, interrupted))


def test_the_end_names_counts_latencies_and_strikes():
    text = text_of(summary(), interrupted="SIGTERM")
    assert "1,200 requests in 1:30 on vllm-omni 0.28.0" in text and "300 left by their client" in text
    assert "first audio p50 1.0, p99 10.0" in text and "sigkill 2" in text and "started again: 2" in text
    assert "2 quiescent points: nothing was left at any" in text and "ended by SIGTERM" in text


def test_the_end_states_what_each_request_leaves():
    leak = Leak(request={"entries": 8.0}, left={"segments": 3.98, "bytes": 1461.0, "entries": 0.001})
    text = text_of(
        summary(leak=leak), Finding(invariant="I51", message="residue", expected="none", found="470 segments")
    )
    assert "each request adds 8 container entries; " in text
    assert "each request that was left adds 3.98 segments, 1461 bytes (the plan" in text
    assert "I51 residue" in text and "found 470 segments" in text


def test_a_rate_that_was_not_reached_is_said():
    assert "not reached" not in text_of(summary(options=SoakOptions(requests=1200, rate=14.0)))
    text = text_of(summary(options=SoakOptions(requests=1200, rate=1e5, concurrency=7)))
    assert "100000 requests a second were asked for and not reached" in text and "--concurrency 7" in text


def test_text_of_a_target_is_shown_and_does_nothing():
    finding = Finding(invariant="I14", message="\x1b[2Jerror: a\nb", expected="\x07", found="\u202e")
    text = text_of(summary(), finding)
    assert r"\x1b[2Jerror: a\nb" in text and "\x1b" not in text and "\u202e" not in text
