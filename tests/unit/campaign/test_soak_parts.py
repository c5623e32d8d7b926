"""Parts of a soak that need no process: phases, ledger, leaks, options."""

import json
from itertools import pairwise
from types import SimpleNamespace

import msgspec
import pytest

from omni_verify.campaign.soak import faults
from omni_verify.campaign.soak.ledger import Findings, Ledger
from omni_verify.campaign.soak.options import Schedule, SoakOptions, nemeses_of
from omni_verify.campaign.soak.record import CHECKPOINT, Checkpoint, Point, leak_of, load, save
from omni_verify.campaign.soak.verdict import summary_of
from omni_verify.checks.observation import Broken
from omni_verify.errors import UsageError
from omni_verify.faults.nemeses import Harm, Strike
from omni_verify.harness.soak.messages import Over
from omni_verify.harness.soak.plan import Plan
from omni_verify.targets.protocol import TargetInfo
from omni_verify.verdict import Finding

PLAN = Plan(index=7, kind="normal", chunks=3)


def over(part, status="done", **more):
    return part, Over(index=7, generation=1, status=status, **more)


def test_phases_come_in_order_and_control_is_a_quarter():
    schedule = Schedule(SoakOptions(requests=10_000))
    phases = [schedule.phase(schedule.progress(n, 0.0)) for n in range(10_000)]
    assert phases[:500] == ["warm-up"] * 500 and phases[500] == "load" and phases[-1] == "control"
    assert abs(phases.count("control") / 9500 - 0.25) < 0.01
    changes = sum(a != b for a, b in pairwise(phases))
    assert changes == 8


def test_a_request_is_over_when_every_part_says_so():
    ledger = Ledger((0, 1))
    ledger.submit(PLAN)
    assert ledger.over(*over(0)) is None
    entry = ledger.over(*over(1, chunks=3, first=0.5, total=1.0, gaps=[0.1, 0.2]))
    assert entry is not None and ledger.close(entry) is False
    assert ledger.counts.completed == 1 and ledger.counts.kinds == {"normal": 1}
    assert ledger.total["first_audio"].total == 1 and ledger.total["inter_chunk"].total == 2
    assert not ledger.streams.all()


def test_a_reused_id_counts_once_and_only_at_its_end():
    ledger = Ledger((0,))
    plan = msgspec.structs.replace(PLAN, kind="reuse")
    ledger.submit(plan)
    assert ledger.close(ledger.over(*over(0))) is True
    ledger.submit(msgspec.structs.replace(plan, generation=2))
    last = Over(index=7, generation=2, status="done")
    assert ledger.close(ledger.over(0, last)) is False
    assert (ledger.counts.started, ledger.counts.completed) == (1, 1)


def test_a_failure_without_a_strike_is_a_finding():
    ledger = Ledger((0, 1))
    ledger.submit(PLAN)
    ledger.over(*over(1, "failed", error="lost"))
    ledger.close(ledger.over(*over(0, "aborted")))
    assert not ledger.streams.all()  # a strike may still become known
    ledger.settle(7)
    assert [f.invariant for f in ledger.streams.all()] == ["I36"] and ledger.counts.failed == 1


@pytest.mark.parametrize("when", ["before", "after", "last"])
def test_a_strike_excuses_a_failure_also_when_it_becomes_known_later(when):
    ledger = Ledger((0, 1))
    ledger.submit(PLAN)
    strike = Strike(nemesis="put-false", key="r7_0_1", harm=Harm.STREAM)
    if when == "before":
        ledger.strike(strike)
    ledger.over(*over(1, "failed", error="lost"))
    if when == "after":
        ledger.strike(strike)
    ledger.close(ledger.over(*over(0, "aborted")))
    if when == "last":
        ledger.strike(strike)
    ledger.settle(7)
    assert not ledger.streams.all() and ledger.counts.strikes == {"put-false": 1}


def test_a_strike_that_may_end_a_stream_does_not_excuse_wrong_frames():
    ledger = Ledger((0,))
    ledger.submit(PLAN)
    ledger.strike(Strike(nemesis="put-false", key="r7_0_1", harm=Harm.STREAM))
    broken = Broken(family=("I36", "I13"), message="stage1 request r7 (generation 1) ended short", key="r7")
    ledger.close(ledger.over(*over(0, broken=[broken])))
    ledger.settle(7)
    (found,) = ledger.streams.all()
    assert found.invariant == "I36" and found.message == "a stream ended short"


def test_repeated_findings_are_counted_with_their_first_examples():
    findings = Findings()
    for n in range(20):
        findings.add(Finding(invariant="I36", message="m", key="k"), f"r{n}")
    (found,) = findings.all()
    assert found.evidence["times"] == 20 and found.evidence["examples"] == [f"r{n}" for n in range(8)]


def test_what_a_request_and_what_a_left_one_add_are_told_apart():
    points, aborted = [], 0
    for n in range(1, 21):
        aborted += 0 if n % 4 == 0 else 25  # every fourth stretch is a control phase
        points.append(
            Point(started=100 * n, aborted=aborted, segments=4 * aborted, entries=8 * 100 * n + 2 * aborted)
        )
    leak = leak_of(tuple(points))
    assert leak.left["segments"] == pytest.approx(4) and leak.request["segments"] == pytest.approx(0)
    assert leak.request["entries"] == pytest.approx(8) and leak.left["entries"] == pytest.approx(2)
    loaded = leak_of(tuple(p for p in points[:3]))  # no control among them: all is put down to leavers
    assert loaded.left["segments"] == pytest.approx(4) and loaded.request["segments"] == 0
    assert leak_of(()).left["segments"] == 0 and leak_of(tuple(points[:1])).left["segments"] == 0


def test_the_rate_counts_the_time_in_which_the_last_requests_ended():
    counts = Ledger((0,)).counts
    counts.completed, counts.aborted = 80, 20
    soak = SimpleNamespace(
        ledger=SimpleNamespace(counts=counts, total={}),
        points=[],
        phases=[],
        system=SimpleNamespace(info=TargetInfo(name="reference")),
        options=SoakOptions(requests=100),
        elapsed_s=20.0,
        load_s=0.5,
        drained_s=1.5,
    )
    assert summary_of(soak, SimpleNamespace(sentences=())).rate == 50.0


def test_names_of_nemeses_are_split_and_checked():
    points, processes, leak = nemeses_of(("put-false", "sigkill", "leak:64"))
    assert (points, processes, leak) == (("put-false",), ("sigkill",), 64)
    everything, killers, _ = nemeses_of(("all",))
    assert "put-raises" in everything and "clock-jumps" not in everything and "sigstop" in killers
    for name, word in (("put-fals", "put-false"), ("leak:", "bytes"), ("clock-jumps", "virtual")):
        with pytest.raises(UsageError, match=word):
            nemeses_of((name,))


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"requests": 5, "duration_s": 5.0},
        {"requests": 5, "stages": 4},
        {"requests": 5, "mix": "none"},
        {"requests": 5, "rate": float("nan")},
        {"requests": 5, "rate": float("inf")},
        {"requests": 5, "concurrency": 0},
        {"requests": 5, "seed": 2**64},
        {"requests": 5, "url": "http://localhost:1", "nemeses": ("leak:64",)},
    ],
)
def test_options_that_cannot_be_are_refused(wrong):
    with pytest.raises(UsageError):
        SoakOptions(**wrong).check()


def test_a_checkpoint_comes_back_and_another_file_is_refused(tmp_path):
    ledger = Ledger((0,))
    checkpoint = Checkpoint(
        options=SoakOptions(requests=10),
        started="2026-01-01T00:00:00",
        next=5,
        again=(3,),
        counts=ledger.counts,
    )
    save(tmp_path, checkpoint)
    assert load(tmp_path) == checkpoint
    with pytest.raises(UsageError, match="resume"):
        load(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"schema": "omni-verify/soak-checkpoint/2"}, "another version"),
        ({"next": -5}, "damaged"),
        ({"latency": {"first_audio": {"x": 1}}}, "damaged"),
        ({"options": {"requests": 5, "of_tomorrow": 1}}, "of_tomorrow"),
        (None, "damaged"),
    ],
)
def test_a_checkpoint_of_another_version_is_refused_with_the_way_on(tmp_path, change, word):
    save(
        tmp_path, Checkpoint(options=SoakOptions(requests=10), started="", next=5, counts=Ledger((0,)).counts)
    )
    path = tmp_path / CHECKPOINT
    whole = path.read_text()
    path.write_text(json.dumps(json.loads(whole) | change) if change else whole[: len(whole) // 2])
    with pytest.raises(UsageError, match=word) as error:
        load(tmp_path)
    assert "omni-verify report" in str(error.value)


def test_frequent_quiescent_points_put_a_strike_off_once(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(faults.time, "monotonic", lambda: now[0])
    system = SimpleNamespace(parts=(0, 1), signal=lambda stage, number: 4711)
    struck = faults.ProcessFaults(("sigkill",), SoakOptions(requests=1, nemesis_every_s=4.0), system)
    found = []
    for _ in range(80):  # load of 0.1 s between rests: less than the delay after each of them
        now[0] += 0.05
        found.append(struck.strike("load"))
        struck.pause()
        now[0] += 0.05
        assert struck.strike("load") is None, "nothing strikes at a quiescent point"
        struck.resume()
    assert sum(strike is not None for strike in found) == 1
