"""The main job over a fake target: events, results, parallel cases, interruption, known failures."""

import datetime as dt
import functools
import json
import os
import signal
import threading

import msgspec
import pytest

from omni_verify.campaign import NothingSelectedError, check, events, known_failures, matrix
from omni_verify.campaign.known_failures import KnownFailure, KnownFailures
from omni_verify.campaign.result import RunResult, json_schema
from omni_verify.campaign.store import RunStore
from omni_verify.errors import TargetUnusableError, UsageError
from omni_verify.settings import Settings
from omni_verify.verdict import Verdict

ALL = ("fake/held", "fake/violated", "fake/cut", "fake/crash")


@pytest.fixture
def run(make_zygote, catalogue):
    return functools.partial(check, "fake", ALL, zygote=make_zygote, package="fake_catalogue")


def entry(glob, **more):
    return KnownFailure(id=glob, target="fake", reason="it leaks", link="W21", **more)


def test_result_has_every_case_and_its_verdict(run):
    seen = []
    result = run(emit=seen.append, jobs=2)
    assert {c.id: c.verdict for c in result.cases} == {
        "fake/crash": Verdict.VIOLATED,
        "fake/cut": Verdict.INCONCLUSIVE,
        "fake/held": Verdict.HELD,
        "fake/violated": Verdict.VIOLATED,
    }
    assert result.verdict is Verdict.VIOLATED and result.gate is None and result.target.name == "fake"
    kinds = [type(e).__name__ for e in seen]
    assert kinds[:2] == ["TargetLoading", "RunStarted"] and kinds[-1] == "RunFinished"
    assert sorted(e.id for e in seen if isinstance(e, events.CaseStarted)) == sorted(ALL)
    assert sorted(e.case.id for e in seen if isinstance(e, events.CaseFinished)) == sorted(ALL)


def test_json_follows_the_published_schema(run):
    jsonschema = pytest.importorskip("jsonschema")
    result = run()
    jsonschema.validate(json.loads(msgspec.json.encode(result)), json_schema())
    assert msgspec.json.decode(msgspec.json.encode(result), type=RunResult) == result
    held = next(c for c in result.cases if c.id == "fake/held")
    assert held.order.declared == ("abort.enter(R) < put.enter(R_0_0)",) and held.order.observed


def test_held_needs_every_case(run):
    assert (
        check("fake", ["fake/held*"], zygote=run.keywords["zygote"], package="fake_catalogue").verdict
        is Verdict.HELD
    )


def test_empty_selection_is_its_own_error(run):
    with pytest.raises(NothingSelectedError) as error:
        check("fake", ["nothing/*"], zygote=run.keywords["zygote"], package="fake_catalogue")
    assert error.value.exit_code == 5


def test_unknown_scenario_names_the_nearest(run):
    with pytest.raises(UsageError, match="Did you mean 'fake/held'"):
        check("fake", ["fake/hold"], zygote=run.keywords["zygote"], package="fake_catalogue")


def test_jobs_must_be_positive(run):
    with pytest.raises(UsageError, match="at least 1"):
        run(jobs=0)


def test_dead_zygote_is_an_error_not_a_verdict(run, make_zygote):
    with pytest.raises(TargetUnusableError):
        check("fake@exit", ALL, zygote=make_zygote, package="fake_catalogue")


def test_interruption_keeps_what_is_known(make_zygote, catalogue):
    """Ctrl-C while a case hangs: the finished case is kept and the run is not held."""

    def interrupt(event):
        if isinstance(event, events.CaseFinished):
            threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()

    result = check(
        "fake",
        ["fake/held", "fake/hang"],
        zygote=make_zygote,
        package="fake_catalogue",
        emit=interrupt,
        settings=Settings(case_s=100),
    )
    assert result.interrupted == "SIGINT" and [c.id for c in result.cases] == ["fake/held"]
    assert result.verdict is Verdict.INCONCLUSIVE


def kinds(result):
    return [(p.kind, p.id) for p in result.gate]


def test_gate_agrees_with_what_is_known(run):
    select = ["fake/held", "fake/violated"]
    known = KnownFailures([entry("fake/viol*")])
    result = check("fake", select, zygote=run.keywords["zygote"], package="fake_catalogue", known=known)
    assert result.gate == () and result.verdict is Verdict.VIOLATED, "the gate never changes a verdict"
    case = next(c for c in result.cases if c.id == "fake/violated")
    assert case.expected is Verdict.VIOLATED and case.known == "it leaks (W21)"


def test_gate_fails_on_every_change(run):
    known = KnownFailures(
        [
            entry("fake/held"),
            entry("fake/gone"),
            entry("fake/violated", expires=dt.date(2020, 1, 1)),
            entry("fake/crash", versions=("==2.0",)),
        ]
    )
    assert sorted(kinds(run(known=known))) == [
        ("expired", "fake/violated"),
        ("inconclusive", "fake/cut"),
        ("stale", "fake/gone"),
        ("unexpected_pass", "fake/held"),
        ("unexpected_violation", "fake/crash"),
    ]


@pytest.mark.parametrize(
    ("versions", "concerns"),
    [((), True), (("==1.0",), True), (("<1", ">=1,<2"), True), (("==0.26.0", "==0.28.0"), False)],
)
def test_entries_select_versions(run, versions, concerns):
    result = check(
        "fake",
        ["fake/violated"],
        zygote=run.keywords["zygote"],
        package="fake_catalogue",
        known=KnownFailures([entry("fake/violated", versions=versions)]),
    )
    assert (result.gate == ()) is concerns


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("[[known_failure]]\nid = 'a/b'", "target"),
        ("[[known_failure]]\nid='a/b'\ntarget='t'\nreason='r'\nlink='l'\nissue='x'", "issue"),
        ("[[known_failure]]\nid='a/b'\ntarget='t'\nreason='r'\nlink='l'\nversions=['~!1']", "~!1"),
        ("not toml", "malformed"),
    ],
)
def test_malformed_known_failures_are_refused(tmp_path, text, word):
    path = tmp_path / "known.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=word):
        known_failures.load(path)


def test_shipped_known_failures_are_complete():
    entries = known_failures.shipped().entries
    counts = {v: sum(f"=={v}" in e.versions for e in entries) for v in ("0.26.0", "0.28.0", "0.30.0")}
    assert counts == {"0.26.0": 41, "0.28.0": 37, "0.30.0": 19} or all(counts.values()), counts
    assert len({e.id for e in entries}) == len(entries)
    assert all(e.reason.endswith(".") and e.link for e in entries)


def test_shipped_known_failures_name_scenarios():
    from omni_verify.harness.scenario import load_catalogue

    ids = set(load_catalogue())
    assert [e.id for e in known_failures.shipped().entries if e.id not in ids] == []


def test_matrix_runs_each_target_in_its_own_process(make_zygote, catalogue):
    known = KnownFailures([entry("fake/violated", versions=("==2",))])
    result = matrix(
        ["fake==1", "fake==2"],
        ["fake/violated", "fake/held"],
        known=known,
        zygote=make_zygote,
        package="fake_catalogue",
    )
    assert [r.target.version for r in result.runs] == ["1", "2"]
    assert [kinds(r) for r in result.runs] == [[("unexpected_violation", "fake/violated")], []]
    assert not result.passed


def test_matrix_wants_targets(make_zygote):
    with pytest.raises(UsageError, match="at least one"):
        matrix([])
    with pytest.raises(UsageError, match="twice"):
        matrix(["fake", "fake"])


def test_store_keeps_the_evidence(run, tmp_path):
    store = RunStore(tmp_path, "check", "fake==1@x/y")
    result = run(emit=store.handle)
    assert (tmp_path / "latest").resolve() == store.path
    assert msgspec.json.decode((store.path / "result.json").read_bytes(), type=RunResult) == result
    folder = store.evidence_of("fake/violated")
    assert [json.loads(line)["point"] for line in (folder / "trace.jsonl").read_text().splitlines()] == [
        "abort.enter",
        "put.enter",
    ]
    assert "SIGSEGV" in (store.evidence_of("fake/crash") / "case.json").read_text()
    assert "fake_target.py" in (store.evidence_of("fake/crash") / "stacks.txt").read_text()
    assert RunStore(tmp_path, "check", "fake==1@x/y").path != store.path, "a run never overwrites another"


def test_store_says_when_it_cannot_write(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="--no-store"):
        RunStore(tmp_path / "file", "check", "fake")
