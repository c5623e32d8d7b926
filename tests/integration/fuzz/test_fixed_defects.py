"""What fuzzing found in a release shows there again, and no more in the release that fixed it."""

import tomllib
from pathlib import Path

import pytest

from omni_verify.campaign.explore.replay import locate, replay_in
from omni_verify.campaign.workers import zygote_for

DEFECTS = tomllib.loads((Path(__file__).parents[2] / "data" / "fuzz" / "fixed.toml").read_text())["defect"]

pytestmark = [pytest.mark.network, pytest.mark.slow]


@pytest.fixture(scope="module", params=["0.26.0", "0.28.0", "0.30.0"])
def release(request):
    spec = f"vllm-omni=={request.param}"
    with zygote_for(spec, "auto", "auto") as held:
        yield request.param, spec, held


def test_a_defect_is_found_before_its_fix_and_not_after(release):
    version, spec, held = release
    told = {}
    for defect in DEFECTS:
        if version in (defect["found_in"], defect["fixed_in"]):
            answer = replay_in(held, locate(defect["token"], spec), times=2)
            told[defect["token"]] = (answer.outcome, defect["invariant"] in answer.answer.message)
    assert told == {
        d["token"]: ("VIOLATED", True) if version == d["found_in"] else ("FIXED", False)
        for d in DEFECTS
        if version in (d["found_in"], d["fixed_in"])
    }
    assert len(told) >= 3
