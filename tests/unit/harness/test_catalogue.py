"""The catalogue is complete, well formed, and its entries run on the reference."""

import json
import re
import subprocess
import sys
import uuid
from collections import Counter

import pytest

from omni_verify.contracts import invariants, weakspots
from omni_verify.harness.scenario import load_catalogue, scenario, select
from omni_verify.targets.protocol import Capabilities

CATALOGUE = load_catalogue()

MEASURED = """
abort: before-first-put processor-running put-created put-in-flight receiver-first third-party-connector
cleanup: exact-key
close: idempotent
deserialize: is-reported leaves-nothing
get: busy-lock-returns not-filled-yet not-sized-yet
ids: odd similar unusable-is-reported
kill: sender
payload: wrong-shape
processor: raises raises-on-terminal
put: enospc existing-unread-key lock-removed-by-late-reader no-inode shm-full
reap: idle-loop rotation
receiver: ar-cleanup-during-get cleanup-during-get no-tombstones reregistered-during-get stale-queued-entry
reuse: after-drain cleanup-before-new-put old-chunks-unread while-draining
send: failed-data-put
shutdown: put-in-flight
stream: plain
terminal: consumer-stops-early parked-session-end put-raises-after-create put-returns-false
terminal: put-returns-false-no-abort queued-then-cleanup retained
threads: distinct-keys
transfer: two-process
"""
"""The rows whose verdicts were measured on real releases: a known failure names a row by its id."""

STARRED = ("W1", "W2", "W3", "W4", "W7", "W10", "W11", "W19", "W20", "W25", "W26", "W31", "W34")
"""Weak spots of connector and adapter that were seen in real releases: each needs a scenario."""

JUDGED = """
I9 I11 I13 I14 I15 I16 I17 I17b I18 I19 I20 I21 I22 I23 I24 I25 I26 I27 I27b I28 I29 I30 I31 I32 I33 I34 I35
I36 I37 I37b I38 I38b I38c I39 I43 I44 I44b I45 I46 I47 I50 I51 I53
"""
"""Invariants that a connector and its adapter can break alone."""

SOURCE = re.compile(
    r"[\w.-]+#\d+|article section \d|conformance contract: |measured on \d"
    r"|read in the adapter|vllm-omni connector: "
)

RUN = """
import json, sys
from omni_verify import targets
from omni_verify.harness.case import run_case
from omni_verify.harness.scenario import get, load_catalogue
load_catalogue()
target = targets.resolve("reference")
target.load()
found = {}
for name in sys.argv[2:]:
    result = run_case(target, get(name), prefix=f"{sys.argv[1]}{len(found)}", isolation="prefix")
    found[name] = [str(result.verdict), result.reason, [f.invariant for f in result.findings]]
print(json.dumps(found))
"""


def measured_ids():
    lines = (line.partition(":") for line in MEASURED.split("\n") if line)
    return [f"{family}/{name}" for family, _, names in lines for name in names.split()]


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=CATALOGUE)
def test_entry_is_well_formed(entry):
    """Its story reads like one, and whatever it names exists."""
    assert entry.story.endswith((".", "!")) and len(entry.story.split()) >= 6
    assert set(entry.invariants) <= set(invariants.INVARIANTS)
    assert set(entry.weak_spots) <= set(weakspots.WEAK_SPOTS)
    assert set(entry.needs) <= set(Capabilities.__struct_fields__)
    assert SOURCE.search(entry.source), f"{entry.source!r} names no public source in a known form"
    assert entry.isolation in ("any", "mount")


def test_ids_are_unique_and_one_family_lies_in_one_file():
    """A second program under an id would silently replace the first."""
    programs = Counter(entry.program for entry in CATALOGUE.values())
    assert set(programs.values()) == {1}
    names = Counter((e.program.__module__, e.program.__name__) for e in CATALOGUE.values())
    assert set(names.values()) == {1}
    files = {}
    for entry in CATALOGUE.values():
        files.setdefault(entry.id.split("/")[0], set()).add(entry.program.__module__)
    assert {family: found for family, found in files.items() if len(found) > 1} == {}


def test_every_measured_row_is_present():
    """Each id is a promise: known failures and comparisons name it."""
    assert len(measured_ids()) == 48
    assert set(measured_ids()) - set(CATALOGUE) == set()


def test_every_weak_spot_and_invariant_has_a_scenario():
    """What nobody exercises is not checked, however many cases are green."""
    spots = {w for entry in CATALOGUE.values() for w in entry.weak_spots}
    judged = {i for entry in CATALOGUE.values() for i in entry.invariants}
    assert set(STARRED) - spots == set()
    assert set(JUDGED.split()) - judged == set()


def test_two_programs_cannot_share_an_id():
    """The same id in another file is refused; names the id."""
    source = "def body(s):\n    'A story that is long enough to be one.'\n"
    module = {}
    exec(compile(source, "elsewhere.py", "exec"), module)
    with pytest.raises(Exception, match="stream/plain"):
        scenario("stream/plain", invariants=("I28",), source="test")(module["body"])
    assert select(["stream/plain"])[0].program is CATALOGUE["stream/plain"].program


def test_some_entries_hold_on_the_reference():
    """One of each kind: files, threads, queues, a moved clock, hints, faults."""
    names = [
        "locks/cleanup-inside-put",
        "roundtrip/metadata",
        "queues/tick-during-cleanup",
        "deadline/progress-resets",
        "hints/lost",
        "failure/consumed-before-it-raised",
        "segments/reset-with-enqueue",
        "release/newer-stream",
    ]
    prefix = f"catalogue{uuid.uuid4().hex[:8]}"
    run = subprocess.run(
        [sys.executable, "-c", RUN, prefix, *names], capture_output=True, text=True, timeout=280, check=False
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout.strip().splitlines()[-1])
    assert found == {name: ["held", "", []] for name in names}
