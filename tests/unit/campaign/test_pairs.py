"""Selection, judgement and the link of pairs, without a target."""

import functools
import os
import shutil
import subprocess
import sys
import threading

import msgspec
import pytest

from omni_verify.campaign import NothingSelectedError, wire
from omni_verify.campaign.pairs.judge import CASES, Judge, PairCase
from omni_verify.campaign.pairs.link import Link, LinkLost, Relay
from omni_verify.campaign.pairs.payloads import corpus, describe, difference
from omni_verify.campaign.pairs.run import pair_cases, pairs
from omni_verify.campaign.pairs.worker import EndReport
from omni_verify.checks.observation import Delivered, Leftover, Observation, Sent
from omni_verify.contracts.payload_schema import OmniPayloadStruct
from omni_verify.errors import UsageError
from omni_verify.verdict import Verdict

torch = pytest.importorskip("torch")

# -- selection --------------------------------------------------------------------------------


def test_every_ordered_pair_has_every_case():
    cases = pair_cases(["a", "b", "c"])
    assert len(cases) == len({c.id for c in cases}) == 9 * len(CASES)
    assert "pair/stream[b->a]" in [c.id for c in cases]


def test_an_id_selects_itself_although_it_contains_brackets():
    assert [c.id for c in pair_cases(["a", "b"], ["pair/stream[a->b]"])] == ["pair/stream[a->b]"]
    assert {c.name for c in pair_cases(["a", "b"], ["pair/pay*"])} == {"payloads"}


def test_bad_selections_are_usage_errors():
    with pytest.raises(UsageError, match="given twice"):
        pairs(["reference", "reference"])
    with pytest.raises(UsageError, match="at least one"):
        pairs([])
    with pytest.raises(NothingSelectedError, match="stream, abort-mid-stream, payloads"):
        pair_cases(["a"], ["pair/nonsense"])


# -- judgement --------------------------------------------------------------------------------


def outcome(role, *, cut="", reaps=True, actors=(), **seen):
    report = EndReport(
        seen=Observation(**seen),
        broken=[],
        actors=(role, *actors),
        finished=() if cut else (role, *actors),
        checked=1,
        reaps=reaps,
        cut=cut,
        stacks="",
    )
    return wire.Outcome(number=1, payload=msgspec.msgpack.encode(report))


def sender(**more):
    sent = Sent(label="R", stage="producer", generation=1, frames=2, ended=True)
    return outcome("sender", sent=[sent], **more)


def receiver(count=2, **more):
    got = Delivered(
        label="R", stage="consumer", generation=1, frames=[("R", 1, i) for i in range(count)], finishes=1
    )
    return outcome("receiver", delivered=[got], **{"quiet": [], "closed": []} | more)


STREAM = PairCase("stream", "a", "b")
ABORT = PairCase("abort-mid-stream", "a", "b")


def test_a_stream_is_held_on_both_reports():
    result = Judge().result(STREAM, sender(), receiver())
    assert result.verdict is Verdict.HELD and result.id == "pair/stream[a->b]"
    assert "--target 'a' --target 'b' --select 'pair/stream[a->b]'" in result.replay


@pytest.mark.parametrize(
    ("ends", "invariant"),
    [
        ((sender(), receiver(count=1)), "I28"),
        ((sender(), receiver(quiet=["R_1_0"])), "I51"),
        ((sender(), receiver(closed=["R_1_0"])), "I53"),
        ((sender(dead_threads=["producer.save"]), receiver()), "I37b"),
        ((sender(), receiver(failures={"receiver.code2wav": "ValueError: x"})), "I37b"),
    ],
)
def test_a_stream_is_violated(ends, invariant):
    result = Judge().result(STREAM, *ends)
    assert result.verdict is Verdict.VIOLATED and invariant in {f.invariant for f in result.findings}


def test_pending_keys_are_judged_only_where_the_release_promises_to_forget_them():
    kept = [Leftover(owner="producer.connector", container="_pending_keys", entry="R_1_0 (of R)")]
    assert Judge().result(STREAM, sender(leftovers=kept), receiver()).verdict is Verdict.VIOLATED
    result = Judge().result(STREAM, sender(leftovers=kept, reaps=False), receiver())
    assert result.verdict is Verdict.HELD and [f.invariant for f in result.side_findings] == ["I23"]


def test_without_a_report_nothing_is_held():
    killed = wire.Outcome(number=1, signal=9)
    assert Judge().result(STREAM, killed, receiver()).verdict is Verdict.INCONCLUSIVE
    late = msgspec.structs.replace(sender(), timed_out=True)
    assert Judge().result(STREAM, late, receiver()).verdict is Verdict.INCONCLUSIVE
    cut = Judge().result(STREAM, sender(cut="the other end ended"), receiver(count=1))
    assert cut.verdict is Verdict.INCONCLUSIVE, "after a cut the ledger is our doing"
    assert "the other end ended" in cut.reason


def test_a_crash_is_a_finding_of_its_target():
    result = Judge().result(STREAM, sender(cut="the other end ended"), wire.Outcome(number=2, signal=11))
    assert result.verdict is Verdict.VIOLATED
    assert result.reason == "the process of the receiver, b, was killed by SIGSEGV"
    quiet_exit = Judge().result(STREAM, wire.Outcome(number=1), receiver(cut="x"))
    assert quiet_exit.findings[0].message == "the process of the sender, a, was ended with status 0"


def test_an_abort_may_leave_what_the_sender_leaves_with_itself_and_no_more():
    judge = Judge()
    assert judge.needs(ABORT) == [PairCase(ABORT.name, "a", "a"), PairCase(ABORT.name, "b", "b")]
    own = judge.result(PairCase(ABORT.name, "a", "a"), sender(), receiver(quiet=["R_1_1"]))
    assert own.verdict is Verdict.HELD and own.side_findings[0].invariant == "I51"
    judge.result(PairCase(ABORT.name, "b", "b"), sender(), receiver())
    assert judge.needs(ABORT) == []
    assert judge.result(ABORT, sender(), receiver(quiet=["R_1_1"])).verdict is Verdict.HELD
    worse = judge.result(ABORT, sender(), receiver(quiet=["R_1_1", "R_1_2"]))
    assert worse.verdict is Verdict.VIOLATED and worse.findings[0].found == "R_1_2"
    assert "does too" not in worse.findings[0].message


# -- link -------------------------------------------------------------------------------------


@pytest.fixture
def relayed(tmp_path):
    """Two linked ends."""
    with Relay(str(tmp_path / "relay")) as relay:
        thread = threading.Thread(target=relay.carry, args=(lambda: False, 20))
        thread.start()
        ends = Link(relay.path, 10), Link(relay.path, 10)
        yield ends
        for end in ends:
            end.close()
        thread.join(20)
        assert not thread.is_alive()


def meet(link, name, word, into):
    into.append(link.meet(name, word))


def test_ends_exchange_words(relayed):
    left, right = relayed
    heard = []
    other = threading.Thread(target=meet, args=(right, "here", b"from right", heard))
    other.start()
    assert left.meet("here", b"from left") == b"from right"
    other.join(20)
    assert heard == [b"from left"]


def test_the_end_of_one_ends_the_wait_of_the_other(relayed):
    left, right = relayed
    right.close()
    with pytest.raises(LinkLost, match="ended before 'here'"):
        left.meet("here")


def test_an_end_that_never_connects_does_not_hold_the_campaign(tmp_path):
    with Relay(str(tmp_path / "relay")) as relay:
        relay.carry(lambda: True, 20)
    assert not (tmp_path / "relay").exists()


# -- payloads ---------------------------------------------------------------------------------


def test_the_corpus_fills_every_field_of_the_schema_and_repeats_itself():
    payloads = dict(corpus(OmniPayloadStruct))
    whole = payloads["schema-0"]
    parts = [
        whole,
        *(v for n in whole.__struct_fields__ if hasattr(v := getattr(whole, n), "__struct_fields__")),
    ]
    assert len(parts) == 6
    assert not [(type(p).__name__, n) for p in parts for n in p.__struct_fields__ if getattr(p, n) is None]
    again = {name: describe(payload) for name, payload in corpus(OmniPayloadStruct)}
    assert {name: describe(payload) for name, payload in payloads.items()} == again
    assert payloads["size-1"]["codes"]["audio"].nbytes == 1
    assert payloads[f"size-{4 << 20}"]["codes"]["audio"].nbytes == 4 << 20


@pytest.mark.parametrize(
    ("sent", "got", "where"),
    [
        ({"a": torch.ones(2)}, {"a": torch.ones(2).double()}, "payload[a]"),
        ({"a": torch.ones(2)}, {"a": torch.ones(1, 2)}, "payload[a]"),
        ({"a": torch.ones(2)}, {"a": torch.zeros(2)}, "payload[a]"),
        ({"l": {7: 1}}, {"l": {"7": 1}}, "payload[l]"),
        ([1, [True]], [1, [1]], "payload[1][0]"),
        ({"a": None}, {}, "payload['a'] is missing"),
    ],
)
def test_a_difference_is_seen_and_located(sent, got, where):
    text = difference(describe(sent), describe(got))
    assert text.replace("'", "").startswith(where.replace("'", ""))


def test_erasure_alone_is_no_difference():
    struct = OmniPayloadStruct(generated_len=3, mtp_inputs=(torch.ones(1), torch.ones(1)))
    erased = {"generated_len": 3, "mtp_inputs": [torch.ones(1), torch.ones(1)]}
    assert describe(struct) == describe(erased)
    assert describe(torch.arange(6).reshape(2, 3).t()) == describe(torch.tensor([[0, 3], [1, 4], [2, 5]]))


# -- one /dev/shm for both ends ---------------------------------------------------------------

MEMBER = """
import os
from omni_verify.campaign import isolation
from omni_verify.campaign.pairs.run import _private_field
with _private_field() as holder:
    seen = []
    for _ in range(2):
        out, into = os.pipe()
        if os.fork() == 0:
            isolation.enter("mount", "", holder)
            os.write(into, repr(os.listdir("/dev/shm")).encode())
            open("/dev/shm/left-by-a-member", "w").close()
            os._exit(0)
        os.wait()
        seen.append(os.read(out, 1000).decode())
    print(*seen)
"""


@pytest.mark.parametrize("privilege", ["as-is", "without-cap-sys-admin"])
def test_the_ends_share_one_private_field(privilege):
    command = [sys.executable, "-c", MEMBER]
    if privilege != "as-is":  # as an ordinary user: the namespace needs a user namespace, also to join it
        if os.getuid() != 0 or shutil.which("setpriv") is None:
            pytest.skip("dropping the capability needs root and setpriv")
        command = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin", *command]
    probe = "from omni_verify.audit import namespace; print(namespace.available() or '')"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    run = functools.partial(
        subprocess.run, capture_output=True, text=True, timeout=60, check=True, env=environment
    )
    if refusal := run([*command[:-1], probe]).stdout.strip():
        pytest.skip(f"no private mount namespace: {refusal}")
    assert run(command).stdout == "[] ['left-by-a-member']\n"
    assert not os.path.exists("/dev/shm/left-by-a-member")
