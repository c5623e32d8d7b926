"""The registries: complete, unambiguous, and helpful when a name is wrong."""

import re
import subprocess
import sys

import pytest

from omni_verify.contracts import invariants, weakspots

LETTERED = {"I4b", "I13b", "I17b", "I27b", "I37b", "I38b", "I38c", "I42b", "I44b", "I47b"}


def test_every_number_from_1_to_53_has_an_invariant():
    numbers = {int(re.sub(r"\D", "", entry.id)) for entry in invariants.all()}
    assert numbers == set(range(1, 54))
    assert {entry.id for entry in invariants.all() if entry.id[-1].isalpha()} == LETTERED


def test_every_invariant_says_what_where_and_why():
    for entry in invariants.all():
        assert entry.statement.endswith("."), entry.id
        assert entry.source, entry.id
        parts = [part.strip() for part in entry.source.split(";")]
        assert all(re.match(r"article sections? \d\.\d|vllm-omni#\d+", part) for part in parts), entry.source


def test_statements_differ():
    statements = [entry.statement for entry in invariants.all()]
    assert len(set(statements)) == len(statements)


def test_order_is_numeric():
    ids = [entry.id for entry in invariants.all()]
    assert ids[:3] == ["I1", "I2", "I3"]
    assert ids.index("I10") > ids.index("I9")
    assert ids.index("I27b") == ids.index("I27") + 1


def test_entries_are_found_by_id():
    assert invariants.INVARIANTS["I29"].scope is invariants.Scope.SENDER
    assert invariants.INVARIANTS["I47"].scope.label == "Code2Wav"
    assert weakspots.WEAK_SPOTS["W3"].breaks == ("I26", "I18")


def test_weak_spots_are_1_to_35_and_name_known_invariants():
    assert [entry.id for entry in weakspots.all()] == [f"W{number}" for number in range(1, 36)]
    for entry in weakspots.all():
        assert set(entry.breaks) <= set(invariants.INVARIANTS), entry.id
        assert entry.remedy.endswith("."), entry.id


def test_entries_are_frozen():
    with pytest.raises(AttributeError):
        invariants.INVARIANTS["I1"].statement = "something else"
    with pytest.raises(TypeError):
        invariants.INVARIANTS["I1"] = None


def test_contracts_load_without_torch():
    code = (
        "import sys\n"
        "from omni_verify.contracts import invariants, keys, payload_schema, weakspots\n"
        "sys.exit('torch' in sys.modules or 'numpy' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
