"""What an ended peer observed joins its parent's observation; what it could not say is not taken for good."""

from types import SimpleNamespace

import msgspec
import pytest

from omni_verify.checks import Broken, Delivered, Leftover, Observation, Sent
from omni_verify.harness.peer_run import PeerResult, absorb

RESULT = PeerResult(
    sent=[Sent(label="R", stage="producer", generation=1, frames=2)],
    delivered=[Delivered(label="R", stage="consumer", generation=1, frames=[("R", 1, 0)])],
    broken=[Broken(family=("I51",), message="m")],
    leftovers=[Leftover(owner="producer", container="put_req_chunk", entry="R")],
    dead_threads=["producer.save"],
    checked=3,
)


@pytest.fixture
def parent():
    return SimpleNamespace(broken=[], checked=1, seen=Observation())


def peer(result=None, error="", returncode=0):
    raw = None if result is None else msgspec.msgpack.encode(result)
    return SimpleNamespace(name="sender", result=raw, error=error, returncode=returncode)


def test_everything_is_taken_over(parent):
    absorb(parent, peer(RESULT))
    assert parent.broken == RESULT.broken
    assert parent.checked == 4
    seen = parent.seen
    assert (seen.sent, seen.delivered, seen.leftovers) == (RESULT.sent, RESULT.delivered, RESULT.leftovers)
    assert (seen.dead_threads, seen.failures, seen.cut) == (RESULT.dead_threads, {}, "")


def test_two_peers_add_up(parent):
    absorb(parent, peer(RESULT))
    absorb(parent, peer(RESULT))
    assert parent.checked == 7
    assert len(parent.seen.sent) == len(parent.seen.leftovers) == 2


def test_an_error_is_a_failure_by_its_last_line(parent):
    absorb(parent, peer(RESULT, error="Traceback\n  line\nKeyError: 'R'\n"))
    assert parent.seen.failures == {"sender": "KeyError: 'R'"}
    assert parent.checked == 4


@pytest.mark.parametrize("returncode", [-9, 70, 0])
def test_an_end_without_a_result_is_a_failure(parent, returncode):
    absorb(parent, peer(returncode=returncode))
    assert parent.seen.failures == {"sender": f"the process ended with {returncode} and no result"}


def test_an_error_without_a_result_keeps_the_error(parent):
    absorb(parent, peer(error="KeyError: 'R'", returncode=70))
    assert parent.seen.failures == {"sender": "KeyError: 'R'"}


def test_a_lapsed_wait_of_a_peer_cuts_the_run_and_is_no_finding(parent):
    absorb(parent, peer(PeerResult(cut="sender waited in vain for a miracle")))
    assert parent.seen.cut == "sender: sender waited in vain for a miracle"
    assert parent.seen.failures == {}
