"""Short soaks of real processes: the whole way from options to verdict."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from omni_verify.audit.series import PHASES, SeriesWriter, UnwritableError, read_series
from omni_verify.campaign.soak import record as soak_record
from omni_verify.campaign.soak.options import SoakOptions
from omni_verify.campaign.soak.run import resume, soak
from omni_verify.errors import TargetUnusableError, UsageError
from omni_verify.verdict import Verdict

ROOT = Path(__file__).parents[3]
CLI = [sys.executable, "-m", "omni_verify.cli.main", "soak"]
SHORT = {"quiesce_every": 40, "sample_s": 0.2, "idle_s": 0.5, "seed": 5}


def run(tmp_path, **options):
    samples = []
    outcome = soak(
        SoakOptions(**{**SHORT, **options}), store=tmp_path, tell=samples.append, emit=lambda event: None
    )
    return outcome, samples


def case(outcome, name):
    return next(c for c in outcome.cases if c.id == f"soak/{name}")


def descendants():
    return {p.pid for p in psutil.Process().children(recursive=True)}


@pytest.mark.slow
@pytest.mark.parametrize("stages", [2, 3])
def test_the_reference_leaves_nothing_at_any_quiescent_point(tmp_path, stages):
    before = descendants()
    outcome, told = run(tmp_path, requests=160, stages=stages)
    for name in ("streams", "residue", "stages", "close"):
        assert case(outcome, name).verdict is Verdict.HELD, case(outcome, name)
    counts, points = outcome.summary.counts, outcome.summary.points
    assert counts.started == 160 == counts.completed + counts.aborted and counts.failed == 0
    assert set(counts.kinds) == {"normal", "abort-before", "abort-mid", "stop-early", "reuse"}
    assert len(points) >= 4 and not any(p.segments or p.locks or p.entries for p in points)
    series = read_series(outcome.folder / soak_record.SERIES)
    assert {s.phase for s in series.samples} == set(PHASES)
    last = series.samples[-1].figures
    for part in range(stages):
        assert last[f"stage{part}.rss"] > 0 and last[f"stage{part}.heap_used"] > 0
        assert last[f"stage{part}.containers"] == 0 and last[f"stage{part}.save_queue"] == 0
    assert outcome.summary.latency["first_audio"]["count"] > 100
    assert told and told[-1].phase == "trim"
    assert descendants() <= before


@pytest.mark.slow
def test_a_seeded_defect_that_leaves_tombstones_is_found_at_rest(tmp_path):
    outcome, _ = run(tmp_path, target="reference@M55", requests=80)
    found = {f.key: f for f in case(outcome, "residue").findings}
    assert outcome.result.verdict is Verdict.VIOLATED
    assert any("_cancelled_load_reqs" in key for key in found), found
    assert outcome.summary.leak.request["entries"] >= 1


@pytest.mark.slow
def test_a_seeded_defect_that_takes_terminals_back_is_found_in_the_streams(tmp_path):
    outcome, _ = run(tmp_path, target="reference@M47", requests=30, mix="normal", request_s=4.0)
    assert case(outcome, "streams").verdict is Verdict.VIOLATED
    assert {f.invariant for f in case(outcome, "streams").findings} == {"I36"}


@pytest.mark.slow
def test_a_seeded_leak_shows_in_the_heap_at_its_rate(tmp_path):
    outcome, _ = run(tmp_path, requests=160, mix="aborts", nemeses=("leak:46080",))
    samples = [s for s in outcome.series.samples if s.quiescent and s.phase == "load"]
    first, last = samples[0], samples[-1]
    grown = last.figures["stage0.heap_used"] - first.figures["stage0.heap_used"]
    assert 0.8 < grown / (last.aborted - first.aborted) / 46080 < 1.25


@pytest.mark.slow
def test_a_killed_stage_is_started_again_and_is_no_finding_of_the_target(tmp_path):
    outcome, _ = run(
        tmp_path, requests=400, nemeses=("sigkill", "sigstop"), nemesis_every_s=1.5, request_s=15.0
    )
    counts = outcome.summary.counts
    assert counts.strikes["sigkill"] >= 1 and counts.deaths >= 1
    assert counts.started == 400 == counts.completed + counts.aborted + counts.failed
    assert not case(outcome, "stages").findings and not case(outcome, "streams").findings
    assert not case(outcome, "residue").findings


@pytest.mark.slow
@pytest.mark.network
def test_release_0_28_is_violated_with_its_leak_per_left_request(tmp_path):
    outcome, _ = run(tmp_path, target="vllm-omni==0.28.0", requests=200, mix="settled", quiesce_every=20)
    assert outcome.result.verdict is Verdict.VIOLATED
    assert {"I51", "I52", "I23"} <= {f.invariant for f in case(outcome, "residue").findings}
    # At rest every chunk that the plan of a left request leaves unread is a segment with its lock file.
    truth = outcome.summary.unread_per_abort
    leak = outcome.summary.leak
    assert 3 < truth < 5
    for name in ("segments", "locks"):
        assert abs(leak.left[name] / truth - 1) < 0.2 and abs(leak.request[name]) < 0.2, leak
    last = outcome.summary.points[-1]
    assert last.segments == outcome.summary.counts.unread
    assert abs(leak.left["bytes"] / (truth * last.bytes / last.segments) - 1) < 0.2
    assert (
        leak.request["entries"] > 5
    )  # each put key and two tombstones stay, of requests that ended well too


class Killer:
    """Kills a stage from outside, once, when a few requests were started."""

    def __init__(self):
        self.pid = 0

    def __call__(self, progress):
        pid = int(progress.sample.figures.get("stage1.pid", 0))
        if not self.pid and pid and progress.sample.started >= 20:
            self.pid = pid
            os.kill(pid, signal.SIGSEGV)


@pytest.mark.slow
def test_a_crash_is_a_finding_with_its_evidence_and_the_soak_goes_on(tmp_path):
    killer = Killer()
    options = SoakOptions(**SHORT, requests=120)
    outcome = soak(options, store=tmp_path, tell=killer, emit=lambda event: None)
    (found,) = [f for f in case(outcome, "stages").findings if f.key == "crash/stage1"]
    assert killer.pid and "SIGSEGV" in found.found and found.evidence["code"] == -signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in found.evidence["log"]
    assert "soak/process.py" in found.evidence["log"]
    assert outcome.summary.counts.restarts == 1 and outcome.summary.counts.started == 120
    assert not case(outcome, "residue").findings and not case(outcome, "streams").findings


def start(tmp_path, *arguments):
    return subprocess.Popen(
        [*CLI, "--report-dir", str(tmp_path), "--quiesce-every", "40", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def wait_for_requests(tmp_path, count, bound_s=120.0):
    """Wait until the checkpoint of the newest run tells of so many requests."""
    end = time.monotonic() + bound_s
    while time.monotonic() < end:
        path = tmp_path / "latest" / soak_record.CHECKPOINT
        if path.exists() and json.loads(path.read_text())["counts"]["started"] >= count:
            return
        time.sleep(0.1)
    raise AssertionError(f"no {count} requests within {bound_s} s")


@pytest.mark.slow
def test_sigterm_ends_the_load_with_a_verdict_and_resume_goes_on_with_the_same_requests(tmp_path):
    process = start(tmp_path, "--requests", "1000000")
    wait_for_requests(tmp_path, 40)
    process.send_signal(signal.SIGTERM)
    text, _ = process.communicate(timeout=120)
    assert process.returncode == 143, text
    assert "ended by SIGTERM" in text and "verdict: INCONCLUSIVE" in text
    folder = (tmp_path / "latest").resolve()
    result = json.loads((folder / "result.json").read_text())
    assert result["interrupted"] == "SIGTERM" and result["verdict"] == "inconclusive"
    before = soak_record.load(folder)
    seconds = read_series(folder / soak_record.SERIES).samples[-1].seconds

    # The end is brought near, so that the second part is short; nothing else of the options may change.
    options = {"requests": before.next + 40}
    path = folder / soak_record.CHECKPOINT
    path.write_text(json.dumps({**json.loads(path.read_text()), "options": options | {"quiesce_every": 40}}))
    outcome = resume(folder, tell=lambda progress: None, emit=lambda event: None)
    assert outcome.summary.counts.started == before.next + 40
    series = read_series(folder / soak_record.SERIES).samples
    later = [s for s in series if s.seconds > seconds]
    assert later and later[-1].completed + later[-1].aborted == before.next + 40
    with pytest.raises(UsageError, match="came to its end"):
        resume(folder, tell=lambda progress: None, emit=lambda event: None)


@pytest.mark.slow
def test_nothing_is_left_when_the_soak_itself_is_killed(tmp_path):
    earlier = set(Path(tempfile.gettempdir()).glob("omni-verify-soak-*"))
    process = start(tmp_path, "--requests", "1000000", "--isolation", "prefix")
    wait_for_requests(tmp_path, 20)
    children = psutil.Process(process.pid).children(recursive=True)
    names = {name for name in os.listdir("/dev/shm") if name.startswith("ovs")}
    folders = set(Path(tempfile.gettempdir()).glob("omni-verify-soak-*"))
    process.kill()
    process.communicate(timeout=60)
    _, alive = psutil.wait_procs(children, timeout=60)
    assert children and not alive
    assert not names & set(os.listdir("/dev/shm"))
    mine = folders - earlier
    assert mine and not any(folder.exists() for folder in mine)


def test_an_unknown_target_and_unknown_names_are_usage_errors(tmp_path, monkeypatch):
    monkeypatch.setenv("OMNI_VERIFY_LOAD_S", "0.1")
    for options, word in (
        ({"target": "referense", "requests": 5}, "reference"),
        ({"nemeses": ("put-fals",), "requests": 5}, "put-false"),
        ({"url": "ftp://x", "requests": 5}, "http://"),
    ):
        with pytest.raises(UsageError, match=word):
            run(tmp_path, **options)
    with pytest.raises(TargetUnusableError, match="no server"):
        run(tmp_path, url="http://127.0.0.1:9", requests=5)


def test_a_target_that_cannot_be_used_leaves_no_run(tmp_path, monkeypatch):
    monkeypatch.setenv("OMNI_VERIFY_LOAD_S", "0.1")
    with pytest.raises(TargetUnusableError, match="no server"):
        run(tmp_path / "reports", url="http://127.0.0.1:9", requests=5)
    assert not (tmp_path / "reports").exists()


@pytest.mark.slow
def test_a_full_disk_ends_the_load_in_order_and_resume_goes_on(tmp_path, monkeypatch):
    append, taken = SeriesWriter.append, []

    def until_full(writer, sample):
        taken.append(sample)
        if len(taken) > 3:
            raise UnwritableError(tmp_path / "series.jsonl", OSError(28, "No space left on device"))
        append(writer, sample)

    before = descendants()
    with monkeypatch.context() as patch:
        patch.setattr(SeriesWriter, "append", until_full)
        outcome, _ = run(tmp_path, requests=2000)
    assert outcome.result.verdict is Verdict.INCONCLUSIVE and not outcome.result.interrupted
    assert "No space left on device" in case(outcome, "streams").reason
    assert case(outcome, "close").verdict is Verdict.HELD, "the stages were ended in order"
    assert descendants() <= before
    counts = soak_record.load(outcome.folder).counts
    assert 0 < counts.started < 2000
    path = outcome.folder / soak_record.CHECKPOINT
    near = {"requests": counts.started + 20, "quiesce_every": 40}
    path.write_text(json.dumps({**json.loads(path.read_text()), "options": near}))
    again = resume(outcome.folder, tell=lambda progress: None, emit=lambda event: None)
    assert again.summary.counts.started == counts.started + 20 and not again.unwritten


@pytest.mark.slow
def test_a_soak_whose_parent_of_stages_is_killed_says_so(tmp_path):
    killed = []

    def kill(progress):
        pid = int(progress.sample.figures.get("parent.pid", 0))
        if pid and not killed:
            killed.append(pid)
            os.kill(pid, signal.SIGKILL)

    outcome = soak(SoakOptions(**SHORT, requests=500), store=None, tell=kill, emit=lambda event: None)
    assert outcome.result.verdict is Verdict.VIOLATED
    assert {f.message for f in case(outcome, "stages").findings} == {"the parent of the stages is gone"}


@pytest.mark.slow
def test_a_soak_that_was_killed_before_its_first_sample_can_be_resumed(tmp_path):
    process = start(tmp_path, "--requests", "60")
    end = time.monotonic() + 60
    while not (path := tmp_path / "latest" / soak_record.CHECKPOINT).exists():
        assert time.monotonic() < end
        time.sleep(0.02)
    process.kill()
    process.communicate(timeout=60)
    outcome = resume(path.parent, tell=lambda progress: None, emit=lambda event: None)
    assert outcome.summary.counts.started == 60
