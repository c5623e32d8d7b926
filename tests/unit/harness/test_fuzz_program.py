"""Fuzzed programs are legal, repeatable, and shrink to legal ones."""

import pytest

from omni_verify.errors import UsageError
from omni_verify.harness.fuzz.generate import generate, smaller
from omni_verify.harness.fuzz.program import Program
from omni_verify.harness.fuzz.rules import EAGER, SESSION, VERBS, Op, Rules

NAMES = ["put-false", "get-late", "reap-raises"]


def legal(*ops, stages=2):
    return Rules.legal([Op(*op) for op in ops], stages)


def test_the_same_seed_gives_the_same_program_and_another_seed_another():
    assert generate(7, NAMES) == generate(7, NAMES)
    assert len({str(generate(seed, NAMES)) for seed in range(50)}) > 45


def test_generated_programs_are_legal_and_use_every_verb():
    programs = [generate(seed, NAMES) for seed in range(1500)]
    assert all(Rules.legal(p.ops, p.stages) for p in programs)
    assert {op.verb for p in programs for op in p.ops} == set(VERBS)
    assert {p.nemeses for p in programs} >= {(), ("put-false",), ("get-late", "reap-raises")}
    assert {p.connector for p in programs} == {"", "other"}
    assert {p.chunk for p in programs} == {0, 3}
    assert {p.stages for p in programs} == {2, 3}


@pytest.mark.parametrize(
    "ops",
    [
        [("emit", "R", 1)],
        [("admit", "R"), ("emit", "R", 1)],  # left open
        [("admit", "R"), ("end", "R")],  # nobody reads it, and nobody drops it
        [("admit", "R"), ("admit", "R"), ("abort", "R")],
        [("admit", "R"), ("segment", "R", 1), ("abort", "R")],
        [("admit", "R"), ("join", "R"), ("finish", "R"), ("abort", "R")],
        [("admit", "R"), ("abort", "R"), ("join", "R")],
        [("admit", "R"), ("release", "R"), ("abort", "R")],
        [("admit", "R", SESSION), ("abort", "R"), ("late", "R", 1)],
        [("stop",), ("admit", "R"), ("abort", "R")],
        [("admit", "R"), ("restart",), ("restart",)],
        [("fly", "R")],
    ],
)
def test_what_no_engine_does_is_not_legal(ops):
    assert not legal(*ops)


@pytest.mark.parametrize(
    "ops",
    [
        [("admit", "R"), ("end", "R", 1), ("join", "R"), ("finish", "R")],
        [("admit", "R"), ("abort", "R"), ("admit", "R", EAGER), ("abort", "R"), ("late", "R", 1)],
        [("admit", "R", SESSION), ("segment", "R", 0), ("join", "R"), ("leave", "R"), ("end", "R")],
        [("admit", "R"), ("restart",), ("admit", "R"), ("emit", "R", 1), ("release", "R"), ("stop",)],
    ],
)
def test_what_engines_do_is_legal(ops):
    assert legal(*ops)


FED = (("admit", "R"), ("feed", "R", 1), ("close", "R"), ("hear", "R"), ("end", "R", 1), ("join", "R"))


def test_a_talker_receives_in_programs_of_three_stages_alone():
    assert legal(*FED, ("finish", "R"), stages=3)
    assert not legal(*FED, ("finish", "R"))
    assert legal(("admit", "R"), ("tick",), ("abort", "R"), stages=3)


@pytest.mark.parametrize(
    "ops",
    [
        [("admit", "R", SESSION), ("abort", "R")],
        [("feed", "R", 1), ("admit", "R"), ("abort", "R")],
        [("admit", "R"), ("feed", "R", 1), ("hear", "R"), ("abort", "R")],  # its end never comes
        [("admit", "R"), ("close", "R"), ("feed", "R", 1), ("abort", "R")],
        [("admit", "R"), ("abort", "R"), ("feed", "R", 1)],
        [("admit", "R"), ("feed", "R", 1), ("end", "R"), ("join", "R"), ("finish", "R")],  # left open
        [("admit", "R"), ("restart",)],
    ],
)
def test_what_no_chain_of_stages_does_is_not_legal(ops):
    assert not legal(*ops, stages=3)


@pytest.mark.parametrize("seed", range(20))
def test_smaller_programs_are_legal_and_smaller(seed):
    program = generate(seed, NAMES)

    def size(p):
        ns = sum(op.n for op in p.ops)
        return len(p.ops), p.stages, len(p.nemeses), p.chunk, len(p.connector), ns

    candidates = list(smaller(program))
    assert candidates
    for candidate in candidates:
        assert Rules.legal(candidate.ops, candidate.stages)
        assert size(candidate) < size(program)


def test_a_program_can_be_written_into_a_token():
    for seed in range(30):
        program = generate(seed, NAMES)
        assert Program.decode(program.encode()) == program


@pytest.mark.parametrize(
    "text", ["", "x", generate(1).encode()[:-4], Program(ops=(Op("emit", "R", 1),)).encode()]
)
def test_a_damaged_or_illegal_program_is_refused(text):
    with pytest.raises(UsageError):
        Program.decode(text)


def test_a_program_reads_as_its_operations():
    assert str(Program(ops=(Op("admit", "R"), Op("emit", "R", 3)))) == "admit(R) emit(R, 3)"
