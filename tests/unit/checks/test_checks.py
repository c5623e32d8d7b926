"""Every branch of every common check, with an observation that passes and one that fails."""

import msgspec
import pytest

from omni_verify.checks import COMMON, Broken, Delivered, Leftover, Observation, Sent, attribute, run_common
from omni_verify.checks.liveness import check_blocked, check_failures, check_threads
from omni_verify.checks.residue import check_closed, check_quiet, check_state
from omni_verify.checks.streams import check_frames, check_terminals
from omni_verify.contracts import invariants


def sent(**changes):
    return Sent(**{"label": "R", "stage": "producer", "generation": 1, "frames": 3, "ended": True, **changes})


def got(**changes):
    frames = [("R", 1, i) for i in range(3)]
    fields = {"label": "R", "stage": "consumer", "generation": 1, "frames": frames, "finishes": 1, **changes}
    return Delivered(**fields)


def stream(source=None, **delivered):
    return Observation(sent=[source or sent()], delivered=[got(**delivered)])


def f(*indices, label="R", generation=1):
    return [(label, generation, i) for i in indices]


FAILING = {
    # name: (check, observation, an invariant of its family, its key, text in its message or finding)
    "blocked": (
        check_blocked,
        Observation(blocked=[("I29", "client inside abort(R)")]),
        "I29",
        "client inside abort(R)",
        "must return",
    ),
    "raised": (
        check_failures,
        Observation(failures={"client": "KeyError: 'R'"}),
        "I37b",
        "client",
        "KeyError: 'R'",
    ),
    "raised on any": (
        check_failures,
        Observation(failures={"client": "KeyError: 'R'"}),
        "*",
        "client",
        "no exception",
    ),
    "mutated": (
        check_failures,
        Observation(failures={"c": "RuntimeError: deque mutated during iteration"}),
        "I44b",
        "c",
        "mutated",
    ),
    "resized": (
        check_failures,
        Observation(failures={"c": "RuntimeError: set changed size during iteration"}),
        "I44b",
        "c",
        "size",
    ),
    "thread": (
        check_threads,
        Observation(dead_threads=["producer.save"]),
        "I37b",
        "producer.save",
        "has died",
    ),
    "layout": (check_frames, stream(broken=["column 0 reads [0]"]), "I12", "R", "column 0"),
    "other stream": (check_frames, stream(frames=f(0, label="S")), "I30", "R", "S generation 1 frame 0"),
    "other generation": (
        check_frames,
        stream(frames=f(0, generation=2)),
        "I38c",
        "R",
        "R generation 2 frame 0",
    ),
    "hole": (check_frames, stream(frames=f(0, 2)), "I13", "R", "0, 2"),
    "duplicate": (check_frames, stream(frames=f(0, 1, 1)), "I13", "R", "0, 1, 1"),
    "reorder": (check_frames, stream(frames=f(1, 0, 2)), "I28", "R", "1, 0, 2"),
    "late start": (check_frames, stream(frames=f(1, 2)), "I13", "R", "1, 2"),
    "lost tail": (check_frames, stream(frames=f(0, 1)), "I36", "R", "2 frames, no error"),
    "lost all": (check_frames, stream(frames=[]), "I36", "R", "0 frames, no error"),
    "two ends": (check_terminals, stream(finishes=2), "I14", "R", "saw its end 2 times"),
    "no end": (check_terminals, stream(finishes=0, waiting=True), "I14", "R", "never comes"),
    "refused in silence": (
        check_terminals,
        stream(sent(ended=False, refused="full"), finishes=0, waiting=True),
        "I36",
        "R",
        "never comes",
    ),
    "quiet": (check_quiet, Observation(quiet=["R_1_0"]), "I51", "R_1_0", "outlives every request"),
    "closed": (
        check_closed,
        Observation(closed=["shm_R_1_0_lockfile.lock"]),
        "I53",
        "shm_R_1_0_lockfile.lock",
        "outlives the close",
    ),
    "state": (
        check_state,
        Observation(leftovers=[Leftover(owner="p", container="put_req_chunk", entry="R")]),
        "I39",
        "p.put_req_chunk",
        "p.put_req_chunk: R",
    ),
    "pending": (
        check_state,
        Observation(leftovers=[Leftover(owner="p", container="_pending_keys", entry="R_1_0")]),
        "I23",
        "p._pending_keys",
        "nobody will read",
    ),
    "tombstone": (
        check_state,
        Observation(leftovers=[Leftover(owner="p", container="_cancelled_load_reqs", entry="R")]),
        "I52",
        "p._cancelled_load_reqs",
        "marks",
    ),
    "growth": (
        check_state,
        Observation(growth=["p.put_req_chunk: 10, 20"]),
        "I39",
        "p.put_req_chunk",
        "grows",
    ),
}

PASSING = {
    "nothing": Observation(),
    "whole": stream(),
    "empty stream": stream(sent(frames=0), frames=[]),
    "live, a prefix": stream(sent(ended=False), frames=f(0, 1), finishes=0),
    "loss is told": stream(frames=f(0), finishes=0, error="receive failure"),
    "finish with an error": stream(frames=f(0), error="receive failure"),
    "waits for a live producer": stream(sent(ended=False), frames=f(0), finishes=0, waiting=True),
    "waits for an aborted producer": stream(sent(aborted=True), frames=f(0), finishes=0, waiting=True),
    "aborted consumer": stream(frames=f(0), finishes=0, waiting=True, aborted=True),
    "waited and was told": stream(frames=f(0), finishes=0, waiting=True, error="deadline"),
    "no producer in sight": Observation(delivered=[got(frames=f(0), waiting=True, finishes=0)]),
    "producer of another generation": Observation(sent=[sent(generation=2, frames=9)], delivered=[got()]),
    "clean audits": Observation(quiet=[], closed=[], leftovers=[], dead_threads=[]),
}


@pytest.mark.parametrize("name", FAILING)
def test_a_broken_contract_is_found(name):
    check, seen, invariant, key, text = FAILING[name]
    (broken,) = check(seen)
    assert invariant in broken.family
    assert broken.key == key
    assert text in f"{broken.message} {broken.expected} {broken.found}"
    assert broken.message
    assert broken in run_common(seen)


@pytest.mark.parametrize("name", PASSING)
def test_what_is_sound_has_no_finding(name):
    assert run_common(PASSING[name]) == []


def test_every_check_has_a_failing_example_and_is_common():
    assert {row[0] for row in FAILING.values()} == set(COMMON)


def test_every_family_names_known_invariants():
    for check, seen, *_ in FAILING.values():
        for broken in check(seen):
            assert set(broken.family) - {"*"} <= set(invariants.INVARIANTS)


def test_each_stream_is_judged_by_its_own_producer():
    seen = Observation(
        sent=[sent(), sent(generation=2, frames=1), sent(label="S", frames=2)],
        delivered=[
            got(),
            got(generation=2, frames=f(0, generation=2)),
            got(label="S", frames=f(0, label="S")),
        ],
    )
    (broken,) = run_common(seen)
    assert broken.key == "S"
    assert "ended without an error and without all frames" in broken.message


def test_several_kinds_of_state_are_told_apart():
    names = ("_pending_keys", "_cancelled_load_reqs", "put_req_chunk", "get_req_chunk")
    seen = Observation(
        leftovers=[Leftover(owner="p", container=n, entry="R") for n in names], growth=["x: 1"]
    )
    assert [b.family[0] for b in check_state(seen)] == ["I23", "I52", "I39", "I39"]


def test_long_lists_are_cut_in_the_text_and_whole_in_the_evidence():
    names = [f"R_1_{i}" for i in range(20)]
    (broken,) = check_quiet(Observation(quiet=names))
    assert "(20 in all)" in broken.found
    assert broken.evidence == {"names": names}


def broken(*family):
    return Broken(family=family, message="m", expected="e", found="f", key="k", evidence={"n": 1})


def ids(findings):
    return [x.invariant for x in findings]


@pytest.mark.parametrize(
    ("family", "declared", "findings", "side"),
    [
        (("I51", "I31"), ("I31",), ["I31"], []),
        (("I51", "I31"), ("I29", "I31", "I51"), ["I31", "I51"], []),
        (("I51", "I31"), ("I29",), [], ["I51"]),
        (("*", "I37b"), ("I29", "I31"), ["I29", "I31"], []),
        (("*", "I37b"), (), [], ["I37b"]),
    ],
)
def test_attribution(family, declared, findings, side):
    found, beside = attribute([broken(*family)], declared)
    assert (ids(found), ids(beside)) == (findings, side)
    for finding in found + beside:
        fields = msgspec.structs.asdict(finding)
        assert {k: fields[k] for k in ("message", "expected", "found", "key", "evidence")} == {
            "message": "m",
            "expected": "e",
            "found": "f",
            "key": "k",
            "evidence": {"n": 1},
        }
