"""The report of a soak: self-contained, hostile names are data, both colour schemes draw, extremes stay."""

import json
import random
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest

from omni_verify.audit.series import Sample, Series, SeriesWriter
from omni_verify.checks.trend.verdict import judge_trend
from omni_verify.cli.main import main
from omni_verify.errors import UsageError
from omni_verify.report.html import soak_html
from omni_verify.report.soak.markdown import soak_markdown
from omni_verify.report.soak.plots import soak_svg
from omni_verify.report.soak.recorded import load_soak
from omni_verify.report.soak.thin import thin
from omni_verify.report.soak.view import MOST_POINTS, soak_view
from omni_verify.verdict import Finding, Verdict

HOSTILE = "</script><script>alert(1)</script>\"'<b>&`${1}|*_\x1b[31m\x00\n\u202e"
ASSETS = Path(__file__).parents[3] / "omni_verify" / "report" / "page"


def leaking(samples=300, per_abort=2_000, name="stage0"):
    dice, rows, completed, aborted = random.Random(1), [], 0, 0
    for i in range(samples):
        phase = "warm-up" if i < 15 else "load" if i % 75 < 55 else "control"
        phase = phase if i < samples - 20 else "idle" if i < samples - 10 else "trim"
        completed += 40
        aborted += 10 if phase in ("warm-up", "load") else 0
        kept = per_abort * aborted
        rows.append(
            Sample(
                seconds=i * 4.5,
                phase=phase,
                started=completed + aborted,
                completed=completed,
                aborted=aborted,
                quiescent=i % 8 == 0,
                figures={
                    f"{name}.rss": 2e8 + kept + dice.gauss(0, 2e4),
                    f"{name}.heap_used": 9e7 + kept + dice.gauss(0, 2e3),
                    f"{name}.fds": 12.0,
                    "shm.segments": 0.0,
                    "latency.first_audio.p50": 0.02 + dice.random() / 100,
                },
            )
        )
    return Series(facts={"target": "made up"}, samples=tuple(rows))


def view_of(series, **more):
    return soak_view(series, judge_trend(series), **more)


@pytest.fixture(scope="module")
def hostile_view():
    series = leaking(name=f"stage0{HOSTILE.replace('.', '')}")
    finding = Finding(invariant=HOSTILE, message=HOSTILE, expected=HOSTILE, found=HOSTILE, key=HOSTILE)
    return view_of(series, title=HOSTILE, findings=[finding], facts={HOSTILE: HOSTILE})


class Page(HTMLParser):
    """Tags, scripts and what the page refers to."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts, self.references, self._in_script = [], [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.references += [v for k, v in attrs if k in ("src", "href", "srcset", "action", "data", "poster")]
        if tag == "script":
            self._in_script = True
            self.scripts.append("")

    def handle_endtag(self, tag):
        self._in_script = self._in_script and tag != "script"

    def handle_data(self, data):
        if self._in_script:
            self.scripts[-1] += data


def test_hostile_names_are_data(hostile_view):
    page = Page(soak_html(hostile_view))
    assert page.tags.count("script") == 4, "a name has made a script element"
    assert "b" not in page.tags
    data = json.loads(page.scripts[1])
    names = [chart["name"] for section in data["sections"] for chart in section["charts"]]
    assert any("</script>" in name for name in names), "names arrive as they are"


def test_no_form_of_a_report_holds_what_a_terminal_or_xml_would_obey(hostile_view):
    ET.fromstring(soak_svg(hostile_view))
    for text in (soak_html(hostile_view), soak_markdown(hostile_view), soak_svg(hostile_view)):
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e]", text)


@pytest.mark.parametrize("name", ["", "rss", ".", "..size."])
def test_a_figure_of_any_name_is_shown(name):
    sample = Sample(seconds=1.0, phase="load", figures={name: 1.0})
    series = Series(facts={}, samples=(sample, msgspec.structs.replace(sample, figures={name: 2.0})))
    assert soak_svg(view_of(series))
    assert soak_html(view_of(series))


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b"\xff", b'{"cases": [{"findings": [3]}]}', b'{"cases": 3}', b'{"findings": 3}']
)
def test_a_damaged_result_is_said(tmp_path, content):
    with SeriesWriter(tmp_path / "series.jsonl", {}) as writer:
        writer.append(Sample(seconds=1.0, phase="load"))
    (tmp_path / "result.json").write_bytes(content)
    with pytest.raises(UsageError, match="not the result of a soak"):
        load_soak(tmp_path)
    (tmp_path / "result.json").write_bytes(b'{"verdict": ["x"], "target": 3}')
    assert load_soak(tmp_path).verdict is Verdict.INCONCLUSIVE


def test_the_page_refers_to_nothing_outside(hostile_view):
    text = soak_html(hostile_view)
    assert Page(text).references == []
    assert not re.search(r"@import|url\((?!\s*[\"']?data:)", text)
    assert not re.search(r"\b(?:fetch|XMLHttpRequest|WebSocket|EventSource|importScripts)\b", text)
    assert "default-src 'none'" in text
    # an address may stand in a comment of the library, and nowhere else
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    assert not re.search(r"https?://", code)


def test_the_library_is_unchanged_and_brings_its_licence():
    text = (ASSETS / "uplot.js").read_text()
    assert "Permission is hereby granted, free of charge" in text
    assert "Copyright (c) 2022 Leon Sorokin" in text
    assert "Permission is hereby granted" in soak_html(view_of(leaking(60))), "the page has it too"


def test_the_page_says_verdict_findings_and_bounds():
    view = view_of(leaking(), title="reference")
    assert view.verdict is Verdict.VIOLATED
    text = soak_html(view)
    for part in ("violated", "per abort", "I52", "bounds", "load and control"):
        assert part in text


def test_findings_of_the_run_decide_with_the_trend():
    finding = Finding(invariant="I37b", message="stage1 has died")
    flat = leaking(per_abort=0)
    view = view_of(flat, findings=[finding])
    assert view.verdict is Verdict.VIOLATED
    assert view.reason == "stage1 has died"


def test_thinning_keeps_extremes_ends_and_gaps():
    values = [float(i % 7) for i in range(10_000)]
    values[5_001], values[7_003], values[8_000] = 1e9, -1e9, None
    kept = thin(values, 400)
    assert len(kept) <= 420
    assert kept == sorted(set(kept))
    assert {0, 5_001, 7_003, 8_000, 9_999} <= set(kept)
    assert thin(values[:100], 400) == list(range(100))


def test_a_long_series_makes_a_page_of_bounded_size():
    view = view_of(leaking(20_000))
    assert all(len(c.values) <= MOST_POINTS * 1.1 for s in view.sections for c in s.charts)
    assert len(soak_html(view)) < 1_000_000


def test_markdown_escapes_names(hostile_view):
    text = soak_markdown(hostile_view, image="plots.svg")
    assert "<script" not in text.replace("\\<", "")
    assert text.startswith("# \\<")
    assert "![series, phases and fits](<plots.svg>)" in text


def test_plots_are_the_same_each_time_and_name_nothing_outside(hostile_view):
    pytest.importorskip("matplotlib")
    first = soak_svg(hostile_view)
    assert first == soak_svg(hostile_view)
    assert "<script" not in first
    assert not re.search(r"(?:href|src)=\"(?!#)", first)


def test_the_command_renders_a_run(tmp_path, capsys):
    series = leaking(120)
    with SeriesWriter(tmp_path / "series.jsonl", series.facts) as writer:
        for sample in series.samples:
            writer.append(sample)
    page, plots = tmp_path / "r.html", tmp_path / "r.svg"
    assert main(["report", str(tmp_path), "--html", str(page), "--svg", str(plots), "--markdown", "-"]) == 0
    assert "made up" in capsys.readouterr().out
    assert page.read_text().startswith("<!doctype html>")
    assert "<svg" in plots.read_text()
    assert main(["report", str(tmp_path), "--html", str(page)]) == 2
    assert "--force overwrites" in capsys.readouterr().err
    assert main(["report", str(tmp_path), "--html", str(page), "--force"]) == 0


def test_the_command_refuses_what_is_no_soak(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 2
    assert main(["report", str(tmp_path / "absent")]) == 2
    assert "no run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["--html", "x", "--svg", "./x"], "one place"),
        (["--html", "-", "--markdown", "-"], "one place"),
        (["--html", "/proc/x/y"], "cannot write"),
        (["--svg", ""], "names no file"),
    ],
)
def test_a_report_that_cannot_be_written_is_refused(tmp_path, monkeypatch, capsys, args, word):
    with SeriesWriter(tmp_path / "series.jsonl", {}) as writer:
        writer.append(Sample(seconds=1.0, phase="load"))
    monkeypatch.chdir(tmp_path)
    assert main(["report", ".", *args]) == 2
    out, err = capsys.readouterr()
    assert word in err and out == "" and [p.name for p in tmp_path.iterdir()] == ["series.jsonl"]


def test_a_killed_run_is_rendered_from_its_series(tmp_path):
    with SeriesWriter(tmp_path / "series.jsonl", {"target": {"name": "reference", "version": "1"}}) as writer:
        for sample in leaking(40).samples:
            writer.append(sample)
    with (tmp_path / "series.jsonl").open("a") as file:
        file.write('{"seconds": 1')
    view = load_soak(tmp_path)
    assert view.title == "reference 1"
    assert ("last line", "torn: the writer was killed") in view.facts


def test_thresholds_are_those_of_the_run_or_of_the_command(tmp_path, capsys):
    facts = {"options": {"thresholds": ["abort_bytes=1e9", "request_bytes=1e9"]}}
    with SeriesWriter(tmp_path / "series.jsonl", facts) as writer:
        for sample in leaking(400).samples:
            writer.append(sample)
    assert ("thresholds", "abort_bytes=1e9, request_bytes=1e9") in load_soak(tmp_path).facts
    kept = [j.verdict for j in load_soak(tmp_path).judgements]
    strict = [j.verdict for j in load_soak(tmp_path, []).judgements]
    assert kept != strict
    assert main(["report", str(tmp_path), "--threshold", "abort_byte=3"]) == 2
    assert "Did you mean 'abort_bytes'?" in capsys.readouterr().err


BROWSERS = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)


@pytest.fixture(scope="module")
def browser():
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"no browser is installed (looked for {', '.join(BROWSERS)})")
    return found


def drawn(browser, page, tmp_path, *flags):
    """The document after its scripts, and a picture of it as bytes of grey levels."""
    common = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=8000"]
    common += [f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1280,1600", *flags]
    dump = subprocess.run(
        [*common, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    picture = tmp_path / "page.png"
    subprocess.run(
        [*common, f"--screenshot={picture}", page.as_uri()], capture_output=True, timeout=120, check=True
    )
    image = pytest.importorskip("PIL.Image").open(picture).convert("RGB")
    return dump.stdout, image


@pytest.mark.parametrize(
    ("flags", "is_dark"), [((), False), (("--blink-settings=preferredColorScheme=0",), True)]
)
def test_a_real_browser_draws_it_in_both_schemes(browser, hostile_view, tmp_path, flags, is_dark):
    page = tmp_path / "r.html"
    page.write_text(soak_html(hostile_view))
    document, image = drawn(browser, page, tmp_path, *flags)
    charts = len(re.findall(r"<canvas", document))
    assert charts == sum(len(s.charts) for s in hostile_view.sections if s.is_open) > 0
    assert f'data-drawn="{charts}"' in document
    corner = image.getpixel((3, 3))
    assert (max(corner) < 60) is is_dark, corner
    series, fit = ((107, 164, 255), (255, 157, 92)) if is_dark else ((37, 99, 201), (194, 65, 12))
    assert near(image, series) > 50, "no line of a series was drawn"
    assert near(image, fit) > 50, "no fit was drawn"


def near(image, colour):
    """How many pixels have about that colour."""
    return sum(
        count
        for count, other in image.getcolors(1 << 24)
        if all(abs(a - b) < 12 for a, b in zip(colour, other, strict=True))
    )
