"""Mutants follow the reference, change what they say, and are targets like any other."""

import os
import subprocess
import sys

import pytest

from omni_verify.contracts import invariants
from omni_verify.errors import UsageError
from omni_verify.faults import mutants
from omni_verify.targets import resolve, variants

MUTANTS = mutants.catalogue()
APPLY_EACH = """
import os, sys
from omni_verify.faults import mutants
from omni_verify.campaign.mutants.job import warm
warm("reference").load()
for mutant_id in mutants.catalogue():
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            mutants.apply(mutant_id)
            status = 0
        except Exception as error:
            print(mutant_id, error)
        sys.stdout.flush()
        os._exit(status)
    os.waitpid(child, 0)
"""


def run(script):
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=200, cwd=os.getcwd()
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_planned_mutant_is_there():
    forms = {2: "ab", 5: "ab", 10: "ab", 17: "ab", 22: "ab", 23: "ab", 26: "ab", 35: "ab", 37: "ab", 41: "ab"}
    forms |= {44: "ab", 46: "ab", 51: "ad", 52: "ab", 53: "ab", 58: "ae", 63: "ab"}
    planned = {f"M{n}{letter}" for n in range(1, 69) for letter in forms.get(n, [""])}
    planned |= {f"M{x}" for x in ("14b", "18b", "24b", "50b", "51b", "58b", "58c", "58d", "68b")}
    planned |= {f"M{x}" for x in ("31b", "31c", "35c", "37c")}  # of the spares
    assert {i for i in MUTANTS if i.startswith("M")} == planned
    assert {i for i in MUTANTS if i.startswith("H")} == {f"H{n:02}" for n in range(1, 13)}


@pytest.mark.parametrize("mutant_id", MUTANTS)
def test_a_mutant_describes_itself(mutant_id):
    mutant = MUTANTS[mutant_id]
    assert mutant.id == mutant_id and mutant.source and mutant.summary
    assert mutant.breaks and set(mutant.breaks) <= set(invariants.INVARIANTS)


def test_every_mutant_fits_the_reference():
    assert run(APPLY_EACH) == ""


def test_a_mutant_is_a_target_like_any_other():
    assert {f"{i}" for i in MUTANTS} <= set(variants())
    assert resolve("reference@M33").spec == "reference@M33"
    with pytest.raises(UsageError, match="M33"):
        resolve("reference@M333")
    with pytest.raises(UsageError, match="unknown mutant"):
        mutants.get("M0")


def test_loading_a_mutant_changes_the_loaded_process_only():
    script = """
from omni_verify.faults import mutants
from omni_verify.targets import resolve
target = resolve("reference@M36")
target.load()
from omni_verify.pipeline.shm_connector import SharedMemoryConnector
import inspect
assert "popitem" not in inspect.getsource(SharedMemoryConnector.reap_consumed)
print(target.info.name)
"""
    assert run(script).strip() == "reference@M36"


def test_a_text_that_is_not_there_is_reported():
    from omni_verify.faults.mutants.mutant import MutantStaleError, edit

    with pytest.raises(MutantStaleError, match="0 times"):
        edit("lockfile:acquire", ("text that is not there", ""))
