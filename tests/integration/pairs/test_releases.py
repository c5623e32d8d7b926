"""Reference and real releases in all ordered pairs: streams, aborts and payloads, in two processes."""

import pytest

from omni_verify.campaign.pairs.run import DEFAULT_TARGETS
from omni_verify.verdict import Verdict

pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cases(run_pairs):
    return {c.id: c for c in run_pairs(DEFAULT_TARGETS).cases}


@pytest.mark.parametrize("name", ["stream", "abort-mid-stream", "payloads"])
@pytest.mark.parametrize("receiver", DEFAULT_TARGETS)
@pytest.mark.parametrize("sender", DEFAULT_TARGETS)
def test_pair_holds(cases, name, sender, receiver):
    case = cases[f"pair/{name}[{sender}->{receiver}]"]
    assert case.verdict is Verdict.HELD, [f"{f.invariant}: {f.message}: {f.found}" for f in case.findings]
    if sender == receiver == "reference":
        assert not case.side_findings
