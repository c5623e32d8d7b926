"""Scenarios of the catalogue under exploration with nemeses."""

import os
import secrets

import pytest

from omni_verify import targets
from omni_verify.engine.explore import Bounds, explore, replay
from omni_verify.harness.besieged import BesiegedWorkload
from omni_verify.harness.explored import controlled
from omni_verify.harness.scenario import get, load_catalogue


@pytest.fixture
def prefix():
    made = f"ovt{secrets.token_hex(4)}-"
    yield made
    assert not [n for n in os.listdir("/dev/shm") if made in n]


@pytest.fixture
def search(prefix):
    def run(spec, nemeses, budget):
        load_catalogue()
        target = targets.resolve(spec)
        target.prepare()
        target.load()
        workload = BesiegedWorkload(target, get("abort/put-in-flight"), nemeses, prefix=prefix)
        with controlled(target):
            result = explore(
                workload, strategy="random", budget=budget, find_all=True, bounds=Bounds(early_timers=0)
            )
            again = [replay(f.token, workload).outcome for f in result.failures]
        return workload, result, again

    return run


def test_the_reference_keeps_its_contracts_when_puts_fail(search):
    workload, result, _ = search("reference", ["put-false", "put-raises-late", "enospc"], 40)
    assert not result.failures
    assert result.schedules == 40
    assert "put-raises-late" in workload.__qualname__
