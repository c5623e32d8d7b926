"""The payload schema: strict about names and types, lossless between its three forms."""

import msgspec
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omni_verify.contracts.payload_schema import (
    CodesStruct,
    MetaStruct,
    OmniPayloadStruct,
    flatten_payload,
    is_truthy_scalar,
    to_dict,
    to_struct,
    unflatten_payload,
    validate_payload,
)

# No time limits: a loaded machine is no bug.
calm = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])

PAYLOAD = {
    "codes": {"audio": torch.arange(6)},
    "meta": {"finished": torch.tensor(False), "left_context_size": 0, "first_audio": True, "error": "why"},
    "hidden_states": {"layers": {0: torch.zeros(2), 24: torch.ones(1)}, "output": torch.zeros(1)},
    "ids": {"all": [1, 2]},
    "speaker": ["Ethan"],
}


def test_struct_and_dict_are_two_views_of_one_payload():
    again = to_dict(to_struct(PAYLOAD))
    assert again.keys() == PAYLOAD.keys()
    assert again["meta"]["left_context_size"] == 0  # a zero is present; only None is absent
    assert again["hidden_states"]["layers"].keys() == {0, 24}
    assert again["codes"]["audio"] is PAYLOAD["codes"]["audio"]


def test_to_dict_drops_what_is_absent():
    assert to_dict(OmniPayloadStruct(meta=MetaStruct(), codes=CodesStruct(), request_id="r")) == {
        "request_id": "r"
    }


@pytest.mark.parametrize(
    "payload",
    [
        {"metta": {}},
        {"meta": {"finish": True}},
        {"meta": {"left_context_size": True}},
        {"meta": {"left_context_size": "3"}},
        {"codes": {"audio": [1, 2]}},
        {"codes": {"audio": "abc"}},
        {"codes": [1]},
        {"hidden_states": {"layers": {"x": torch.zeros(1)}}},
    ],
)
def test_drift_from_the_schema_is_refused(payload):
    with pytest.raises(msgspec.ValidationError, match=r"^edge 1: "):
        validate_payload(payload, context="edge 1")


def test_nothing_to_check_passes():
    validate_payload(None)


leaves = st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)
names = st.sampled_from(["output", "audio", "finished", "left_context_size", "all", "prefill"])
categories = st.sampled_from(["embed", "ids", "codes", "meta"])
payloads = st.fixed_dictionaries(
    {},
    optional={
        "hidden_states": st.fixed_dictionaries(
            {"output": leaves}, optional={"layers": st.dictionaries(st.integers(0, 99), leaves, min_size=1)}
        ),
        "latent": leaves,
        "speaker": leaves,
    },
)


@calm
@given(payloads, st.dictionaries(categories, st.dictionaries(names, leaves, min_size=1)))
def test_unflatten_undoes_flatten(head, rest):
    payload = {**head, **rest}
    assert unflatten_payload(flatten_payload(payload)) == payload


def test_flat_keys_are_those_of_the_wire():
    flat = flatten_payload(PAYLOAD)
    assert {
        "codes.audio",
        "meta.finished",
        "hidden_states.layer_24",
        "hidden_states.output",
        "speaker",
    } <= flat.keys()
    assert flatten_payload(None) == {}
    assert unflatten_payload({"foo.bar.baz": 1}) == {"foo": {"bar.baz": 1}}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (torch.tensor(True), True),
        (torch.tensor(False), False),
        (torch.tensor([True]), True),
        (torch.tensor([True, True]), False),
        (torch.empty(0), False),
        (True, True),
        (False, False),
        (None, False),
    ],
)
def test_flags_read_alike_in_every_form(value, expected):
    assert is_truthy_scalar(value) is expected
