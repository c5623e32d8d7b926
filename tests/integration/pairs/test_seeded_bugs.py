"""A pair is violated when one of its ends is broken, whichever it is; a crash ends one case, not the run."""

import pytest

from omni_verify.verdict import Verdict

pytestmark = pytest.mark.slow
LOSSY, CRASHING = "reference@lossy", "reference@crashing"


@pytest.fixture(scope="module")
def cases(run_pairs, seeded_zygote):
    result = run_pairs(["reference", LOSSY], zygote=seeded_zygote)
    assert result.verdict is Verdict.VIOLATED and not result.interrupted
    return {c.id.removeprefix("pair/"): c for c in result.cases}


def invariants(case):
    return {f.invariant for f in case.findings}


def test_sound_ends_are_not_blamed(cases):
    for name in ("stream", "abort-mid-stream", "payloads"):
        assert cases[f"{name}[reference->reference]"].verdict is Verdict.HELD
    assert cases[f"stream[reference->{LOSSY}]"].verdict is Verdict.HELD, "it loses chunks as a sender only"
    assert cases[f"payloads[{LOSSY}->reference]"].verdict is Verdict.HELD, "it rounds as a receiver only"


def test_a_chunk_that_the_sender_loses_breaks_the_stream(cases):
    case = cases[f"stream[{LOSSY}->reference]"]
    assert case.verdict is Verdict.VIOLATED and {"I28", "I14"} <= invariants(case)
    assert case.findings[0].found == "15 frames, 0 ends"


def test_a_dtype_that_the_receiver_changes_breaks_the_payload(cases):
    case = cases[f"payloads[reference->{LOSSY}]"]
    assert [f.key for f in case.findings] == ["dtype-bfloat16"]
    assert "torch.bfloat16" in case.findings[0].found and "torch.float32" in case.findings[0].found


def test_an_abort_is_compared_with_the_senders_own_pair(cases):
    mixed = cases[f"abort-mid-stream[reference->{LOSSY}]"]
    assert mixed.verdict is Verdict.VIOLATED and invariants(mixed) == {"I51"}
    assert "R_9_9" in mixed.findings[0].found and "does too" in mixed.findings[0].message
    own = cases[f"abort-mid-stream[{LOSSY}->{LOSSY}]"]
    assert own.verdict is Verdict.HELD and {f.invariant for f in own.side_findings} == {"I51", "I53"}
    assert cases[f"abort-mid-stream[{LOSSY}->reference]"].verdict is Verdict.HELD, "it leaves no more"


def test_a_crash_is_a_finding_and_the_next_case_runs(run_pairs, seeded_zygote):
    result = run_pairs(["reference", CRASHING], ["pair/stream*", "pair/abort*"], zygote=seeded_zygote)
    cases = {c.id.removeprefix("pair/"): c for c in result.cases}
    crashed = cases[f"stream[reference->{CRASHING}]"]
    assert crashed.verdict is Verdict.VIOLATED
    assert [f.message for f in crashed.findings][:1] == [
        f"the process of the receiver, {CRASHING}, was killed by SIGSEGV"
    ]
    assert crashed.findings[0].key == "receiver"
    assert cases[f"stream[{CRASHING}->reference]"].verdict is Verdict.HELD, "as a sender it is sound"
    assert cases[f"abort-mid-stream[reference->{CRASHING}]"].verdict is Verdict.HELD, "chunk 2 stays unread"
