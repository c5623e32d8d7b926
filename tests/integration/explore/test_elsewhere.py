"""The same result on a Ray cluster, and the same trace on another minor version of Python."""

import os
import subprocess
from pathlib import Path

import pytest

import omni_verify
from omni_verify.campaign.explore.replay import replay
from omni_verify.campaign.explore.search import explore

ROOT = Path(omni_verify.__file__).parents[1]
SEATS = f"{ROOT / 'examples' / 'first_race' / 'seats.py'}:last_seat"
OTHERS_VARIABLE = "OMNI_VERIFY_OTHER_PYTHONS"
"""Interpreters of other minor versions that have the dependencies of omni-verify, separated as in PATH."""
_DIGEST = """
import sys
from omni_verify.campaign.explore.replay import replay
report = replay(sys.argv[1], program=sys.argv[2], carrier=sys.argv[3])
print(report.outcome, report.answer.digest)
"""


def test_ray_gives_what_the_workers_of_one_machine_give():
    pytest.importorskip("ray")
    options = {"budget": 600, "seed": 2, "find_all": True, "workers": 2}
    here, there = explore(SEATS, **options), explore(SEATS, ray="local", **options)
    assert here.failures == there.failures
    assert [p.schedules for p in here.programs] == [p.schedules for p in there.programs] == [600]
    assert here.programs[0].decisions == there.programs[0].decisions


@pytest.mark.parametrize("python", os.environ.get(OTHERS_VARIABLE, "").split(os.pathsep))
def test_a_token_gives_the_same_trace_on_another_python(python):
    if not python:
        pytest.skip(f"{OTHERS_VARIABLE} names no interpreter")
    token = explore(SEATS, budget=20).failures[0].token
    expected = replay(token, program=SEATS)
    for carrier in ("greenlet", "thread"):
        done = subprocess.run(
            [python, "-c", _DIGEST, token, SEATS, carrier],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout.split() == [expected.outcome, expected.answer.digest], done.stderr
