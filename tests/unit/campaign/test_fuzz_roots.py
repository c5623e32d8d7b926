"""Which failures come from one defect: contract, pair of operations and place agree."""

from omni_verify.campaign.explore.exploration import FailureRecord
from omni_verify.campaign.fuzz.fuzzing import FuzzFailure
from omni_verify.campaign.fuzz.roots import operation_pair, place, roots
from omni_verify.faults.nemeses import Harm, Strike
from omni_verify.trace.event import Event


def trace(*steps):
    return [
        Event(seq=i, actor=s[0], point=s[1], key=s[2], detail=s[3] if len(s) > 3 else {})
        for i, s in enumerate(steps)
    ]


def failure(identity, pair=("abort", "put"), where="", **more):
    record = FailureRecord(identity=identity, kind="contract", message=identity, program="fuzz:x")
    return FuzzFailure(identity=identity, pair=pair, where=where, record=record, **more)


UNREAD = trace(
    ("producer.save", "put.enter", "R_1_0"),
    ("producer.save", "seg.create.enter", "R_1_0"),
    ("producer.save", "put.exit", "R_1_0"),
    ("client", "abort.enter", "R"),
    ("producer.save", "put.exit", "Q_1_0"),
    ("consumer.recv", "get.exit", "R_1_1", {"found": False}),
    ("main", "release.enter", "R"),
)


def test_without_a_strike_the_last_two_operations_of_two_actors_met():
    assert operation_pair(UNREAD, "R_1_0") == ("abort", "put")


def test_with_a_strike_it_is_the_struck_operation_and_the_last_that_met_its_effect():
    events = trace(
        ("producer.save", "put.enter", "R_1_0"),
        ("producer.save", "seg.create.enter", "R_1_0"),
        ("producer.save", "fault", "R_1_0"),
        ("producer.save", "put.exit", "R_1_0"),
        ("consumer.recv", "get.exit", "R_1_1", {"found": True}),
    )
    assert operation_pair(events, "R") == ("put", "get")


def test_the_place_is_what_was_struck_or_the_function_of_the_target_that_raised():
    strike = Strike(nemesis="put-false", key="R_1_0", harm=Harm.STREAM, where="_send_chunk")
    text = (
        'File "/x/transfer_adapter.py", line 9, in restore\n'
        'File "/x/omni_verify/engine/control/deques.py", line 9, in _steps'
    )
    assert place([strike], text) == "_send_chunk"
    assert place([], text) == "restore"
    assert place([], "") == ""


def test_the_same_contract_pair_and_place_are_one_root_cause():
    found = [
        failure("I51: kept", strikes=("a",)),
        failure("I51: kept", strikes=("b",)),
        failure("I51: kept", pair=("put", "stop")),
        failure("I36: lost"),
    ]
    assert roots(found) == ((found[0].key, found[1].key), (found[2].key,), (found[3].key,))


def test_what_one_run_breaks_joins_the_root_causes_of_its_contracts():
    found = [
        failure("I28: hole"),
        failure("I36: lost"),
        failure("I32: late", also=("I28: hole", "I36: lost")),
    ]
    assert roots(found) == ((found[0].key, found[2].key, found[1].key),)


def test_what_is_left_behind_tells_nothing_where_something_else_is_broken():
    found = [
        failure("I51: kept", also=("I36: lost",)),
        failure("I28: hole", also=("I51: kept",)),
        failure("I51: kept", strikes=("a",)),
    ]
    assert roots(found) == tuple((f.key,) for f in found)


def test_a_failure_of_which_nothing_is_known_stands_alone():
    found = [failure("I51: kept", pair=(), strikes=(n,)) for n in "ab"]
    assert roots(found) == ((found[0].key,), (found[1].key,))
