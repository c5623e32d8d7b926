"""Key grammar and file names: injective, parsed from the right, always usable as a file name."""

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omni_verify.contracts import keys
from omni_verify.errors import UsageError

# No time limits: a loaded machine is no bug.
calm = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])

texts = st.text(st.characters(), max_size=300) | st.text("R_01-shm.lock/%\0é", max_size=40)
fields = st.tuples(texts, st.integers(-1, 99), st.integers(0, 10**6))


@calm
@given(fields)
def test_parse_undoes_build(field):
    assert keys.parse_key(keys.build_key(*field)) == field


@calm
@given(fields, fields)
def test_different_chunks_have_different_file_names(first, second):
    names = {keys.file_name(keys.build_key(*field)) for field in (first, second)}
    assert len(names) == (1 if first == second else 2)


@calm
@given(texts)
def test_every_key_gets_a_usable_name(key):
    name = keys.file_name(key)
    assert "/" not in name
    assert "\0" not in name
    assert name not in {"", ".", ".."}
    assert len(os.fsencode(keys.lock_name(name))) <= 255
    assert keys.key_of_lock_name(name) is None
    assert not keys.WAKE_DIRECTORY_PATTERN.fullmatch(name)


@calm
@given(texts)
def test_an_escaped_name_is_never_the_name_of_another_key(key):
    name = keys.file_name(key)
    assert name == key or keys.file_name(name) != name


FAMILY = [
    "R",
    "R_1",
    "R_1_2",
    "R1",
    "1_R",
    "R_",
    "_R",
    "R__1",
    "R_0",
    "R.lock",
    ".R",
    "-R",
    "é",
    "R %41",
    "r" * 200,
]


@pytest.mark.parametrize("external_id", FAMILY)
def test_ids_that_vllm_omni_can_carry_are_unchanged(external_id):
    key = keys.build_key(external_id, 1, 0)
    assert keys.file_name(key) == key


def test_longest_unchanged_key_fits_with_its_lock_file():
    key = "k" * keys.MAX_KEY_BYTES
    assert keys.file_name(key) == key
    assert len(keys.lock_name(key)) == 255
    assert keys.file_name(key + "k") != key + "k"


@pytest.mark.parametrize(
    "key",
    ["", ".", "..", "a/b", "a\0b", "shm_R_1_0_lockfile.lock", "omni_shm_wake_0_1", "\ud800"],
)
def test_unusable_keys_are_escaped_readably(key):
    name = keys.file_name(key)
    assert name.startswith(keys.ESCAPED_PREFIX)
    assert name.isascii()


def test_escaped_name_shows_the_run_prefix():
    assert "myrun7-x" in keys.file_name("myrun7-x/../y_1_0")


@pytest.mark.parametrize("key", ["", "R", "R_1", "R_1_x", "R_01_2", "R_1_", "R_1_٣"])
def test_parse_refuses_what_is_no_chunk_key(key):
    with pytest.raises(UsageError, match="not a chunk key"):
        keys.parse_key(key)


def test_sequence_prefix_matches_its_own_chunks_only():
    prefix = keys.sequence_prefix("task", 1)
    assert keys.build_key("task", 1, 12) == prefix + "12"
    sibling = keys.build_key("task_1_2", 1, 0)
    assert not (sibling.startswith(prefix) and sibling[len(prefix) :].isdigit())


def test_wake_names_match_their_patterns():
    for directory in (keys.wake_directory(0, 77), keys.wake_directory(1000, 77, "scope")):
        assert keys.WAKE_DIRECTORY_PATTERN.fullmatch(directory.rsplit("/", 1)[1])
    assert keys.WAKE_FIFO_PATTERN.fullmatch(keys.wake_fifo_name(2, "0" * 32))["stage"] == "2"
    assert keys.OWNER_PATTERN.fullmatch(keys.owner_name(12, "f" * 32))["pid"] == "12"
