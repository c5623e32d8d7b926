"""The campaign of the mutants: what counts as a kill, and that every named guard exists."""

from pathlib import Path

import pytest

from omni_verify.campaign.mutants.guards import read_guards
from omni_verify.campaign.mutants.run import mutants
from omni_verify.errors import UsageError
from omni_verify.faults.mutants import catalogue
from omni_verify.harness.scenario import load_catalogue
from omni_verify.report.mutants import markdown_table, summary_lines

TESTS = Path(__file__).parents[2]


def test_a_case_kills_with_the_mutants_own_invariant():
    result = mutants(["M33", "M31"], jobs=1)
    kills = {r.mutant.id: r.kills for r in result.records}
    assert kills["M33"][0].invariant == "I21" and kills["M31"][0].invariant == "I19"
    assert not result.survivors and not result.unfit
    assert "2 mutants: 2 killed, 0 alive" in summary_lines(result)[-1]
    assert "| M33 |" in markdown_table(result)


def test_a_mutant_that_no_case_knows_survives():
    result = mutants(["M12"], jobs=1)  # only tests guard it
    assert [r.mutant.id for r in result.survivors] == ["M12"]
    assert "**alive**" in markdown_table(result)


def test_nothing_selected_is_an_error():
    with pytest.raises(UsageError, match="no mutant matches"):
        mutants(["M99*"])


def test_every_guard_exists_and_every_mutants_invariant_is_guarded():
    guarded = {i for ids in read_guards(TESTS).values() for i in ids}
    guarded |= {i for s in load_catalogue().values() for i in s.invariants}
    unguarded = [m.id for m in catalogue().values() if not m.equivalent and not guarded & set(m.breaks)]
    assert unguarded == []


def test_a_guard_that_does_not_exist_is_named(tmp_path):
    table = tmp_path / "quality" / "mutants"
    table.mkdir(parents=True)
    (table / "guards.toml").write_text('[guards]\n"test_x.py::test_gone" = ["I1"]\n')
    with pytest.raises(UsageError, match="test_gone"):
        read_guards(tmp_path)
    (table / "guards.toml").write_text("[guards]\n")
    (tmp_path / "test_x.py").write_text('import pytest\n@pytest.mark.invariant("I0")\ndef test_y(): pass\n')
    with pytest.raises(UsageError, match="unknown invariant 'I0'"):
        read_guards(tmp_path)
