"""The wire format: every value of the schema survives it, and what cannot survive is refused."""

import contextlib
import dataclasses

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omni_verify.contracts.payload_schema import CodesStruct, IdsStruct, MetaStruct, OmniPayloadStruct
from omni_verify.pipeline import wire
from omni_verify.pipeline.serde import OmniSerializer, PayloadDecodeError, PayloadEncodeError

# No time limits: a loaded machine is no bug.
calm = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])

DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16]
DTYPES += [torch.bfloat16, torch.float32, torch.float64, torch.complex64]


def roundtrip(value):
    return OmniSerializer.deserialize(OmniSerializer.serialize(value))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "form", ["whole", "scalar", "empty", "empty matrix", "transposed", "sliced", "large"]
)
def test_tensors_keep_value_dtype_and_shape(dtype, form):
    base = torch.arange(24).to(dtype).reshape(4, 6)
    forms = {
        "whole": base,
        "scalar": base[2, 3],
        "empty": base[0, :0],
        "empty matrix": base[:2, :0],
        "transposed": base.t(),
        "sliced": base[1:3, ::2],
        "large": torch.arange(300_000).to(dtype),
    }
    result = roundtrip({"x": forms[form]})["x"]
    assert result.dtype == dtype
    assert result.shape == forms[form].shape
    assert torch.equal(result, forms[form])


@pytest.mark.parametrize("length", [2, 40_000])
def test_bytes_on_the_wire_are_those_of_vllm_omni(length):
    data = bytes([7] + [0] * (8 * length - 1))
    tensor = {"__tensor__": True, "dtype": "int64", "shape": [length], "data": data}
    expected = {"codes": {"audio": tensor}}
    payload = OmniPayloadStruct(codes=CodesStruct(audio=torch.tensor([7] + [0] * (length - 1))))
    assert OmniSerializer.serialize(payload) == msgspec.msgpack.encode(expected)


def test_slice_of_a_large_tensor_costs_its_own_bytes():
    assert len(OmniSerializer.serialize(torch.zeros(1_000_000)[5:7])) < 100


def test_received_tensor_is_writable_and_has_no_gradient():
    for size in (3, 300_000):
        result = roundtrip({"x": torch.randn(size, requires_grad=True)})["x"]
        result[0] = 5
        assert not result.requires_grad


def test_conjugate_view_is_resolved():
    value = torch.tensor([1 + 2j]).conj()
    assert torch.equal(roundtrip(value), value.resolve_conj())


def test_large_tensor_is_a_piece_that_is_not_copied():
    tensor = torch.arange(40_000)
    pieces = OmniSerializer.pieces({"a": 1, "t": tensor, "u": torch.arange(20_000)[::1], "z": [2]})
    assert len(pieces) == 5
    assert b"".join(pieces) == OmniSerializer.serialize({"a": 1, "t": tensor, "u": tensor[:20_000], "z": [2]})
    tensor[0] = 7
    assert bytes(pieces[1][:8]) == (7).to_bytes(8, "little")


@pytest.mark.parametrize("padding", [0, *range(20, 120), 70_000])
def test_large_tensor_stays_where_it_was_read_to(padding):
    """Every place in a page, also where copying would be slow, and one that the reader cannot guess."""
    value = {"p": "x" * padding, "t": torch.arange(100_000), "s": torch.tensor(3)}
    pieces = OmniSerializer.pieces(value)
    message = b"".join(pieces)
    memory = wire.landing(message[:65536], len(message))
    memory[:] = np.frombuffer(message, np.uint8)
    result = OmniSerializer.deserialize(memory)
    assert torch.equal(result["t"], value["t"])
    assert result["s"] == 3
    result["t"][5] = 1  # it can be written to
    assert result["t"].data_ptr() % 8 == 0
    in_place = padding < 65536
    assert (memory.tobytes() != message) == in_place


def test_tensor_that_is_a_small_part_of_its_message_does_not_keep_it():
    message = OmniSerializer.serialize({"t": torch.arange(20_000), "b": b"\0" * 1_000_000})
    memory = wire.landing(message[:65536], len(message))
    memory[:] = np.frombuffer(message, np.uint8)
    result = OmniSerializer.deserialize(memory)
    memory[:] = 0
    assert torch.equal(result["t"], torch.arange(20_000))


def test_large_tensors_without_numpy_type_or_order_are_pieces_too():
    value = {"b": torch.arange(100_000).to(torch.bfloat16), "t": torch.arange(90_000).reshape(300, 300).t()}
    result = roundtrip(value)
    assert all(torch.equal(result[name], value[name]) for name in value)


def test_struct_arrives_as_dict_and_absent_fields_do_not_arrive():
    payload = OmniPayloadStruct(
        meta=MetaStruct(finished=torch.tensor(True), left_context_size=0), ids=IdsStruct(all=[1, 2])
    )
    result = roundtrip(payload)
    assert result.keys() == {"meta", "ids"}
    assert result["meta"]["left_context_size"] == 0
    assert result["meta"]["finished"].shape == ()
    assert result["ids"] == {"all": [1, 2]}
    assert OmniSerializer.serialize(OmniPayloadStruct()) == b"\x80"


@dataclasses.dataclass
class Point:
    x: int
    t: torch.Tensor


def test_other_types_with_a_wire_form():
    assert roundtrip(slice(1, 2)) == [1, 2, None]
    assert roundtrip([(1, 2), (3,)]) == [[1, 2], [3]]
    assert roundtrip({1: {2: "x"}}) == {1: {2: "x"}}
    assert roundtrip(Point(1, torch.tensor(2)))["t"] == 2
    array = np.arange(6, dtype="<i2").reshape(2, 3)[:, ::2]
    assert roundtrip(array).dtype == array.dtype
    assert np.array_equal(roundtrip(array), array)
    assert roundtrip({"small": b"ab", "big": b"x" * 300_000}) == {"small": b"ab", "big": b"x" * 300_000}
    assert roundtrip(b"y" * 300_000) == b"y" * 300_000


def test_large_message_owns_its_memory():
    message = bytearray(
        OmniSerializer.serialize({"t": torch.zeros(100_000), "n": np.zeros(90_000), "b": b"\0" * 200_000})
    )
    result = OmniSerializer.deserialize(message)
    message[:] = b"\xff" * len(message)
    assert not result["t"].any()
    assert not result["n"].any()
    assert result["b"] == b"\0" * 200_000


@pytest.mark.parametrize(
    "payload",
    [
        {"__tensor__": False},
        {"meta": {"__ndarray__": 1}},
        [{"x": ({"__pil_image__": True},)}],
        {"meta": {"finished": True, "images": []}},
        {"finished": True, "final_output_type": "audio"},
        OmniPayloadStruct(kv_metadata={"__tensor__": True}),
        {"t": torch.tensor(1), "x": {"__tensor__": 1}},
        {"t": torch.arange(40_000), "x": {"__tensor__": 1}},
        {"t": torch.arange(5_000), "x": {"__ndarray__": 1}},
    ],
)
def test_maps_that_would_become_another_type_are_refused(payload):
    with pytest.raises(PayloadEncodeError, match="would"):
        OmniSerializer.serialize(payload)


def test_words_that_reserved_maps_are_made_of_are_no_obstacle():
    value = {"a__b": "__tensor__", "images": [1], "meta": {"outputs": "finish_reason", "index": 1}}
    assert roundtrip(value) == value


@pytest.mark.parametrize("value", [object(), {"x": {1, object()}}, lambda: 0, 1 << 70, np.array([object()])])
def test_values_without_a_wire_form_are_refused(value):
    with pytest.raises(PayloadEncodeError):
        OmniSerializer.serialize(value)


def test_a_container_that_holds_itself_is_refused():
    loop = []
    loop.append(loop)
    with pytest.raises(PayloadEncodeError):
        OmniSerializer.serialize(loop)


GOOD = OmniSerializer.serialize(
    {"codes": {"audio": torch.arange(40_000)}, "meta": {"finished": torch.tensor(True)}}
)


@pytest.mark.parametrize("cut", [0, 1, 2, 10, 60, 200_000, len(GOOD) - 1])
def test_every_truncation_is_a_decode_error(cut):
    with pytest.raises(PayloadDecodeError, match=f"cannot decode {cut} payload bytes"):
        OmniSerializer.deserialize(GOOD[:cut])


@pytest.mark.parametrize(
    "marked",
    [
        {"__tensor__": True},
        {"__tensor__": True, "dtype": "no_such", "shape": [1], "data": b"1"},
        {"__tensor__": True, "dtype": "Tensor", "shape": [1], "data": b"1"},
        {"__tensor__": True, "dtype": "quint8", "shape": [1], "data": b"1"},
        {"__tensor__": True, "dtype": "int64", "shape": [3], "data": b"\0" * 16},
        {"__tensor__": True, "dtype": "int64", "shape": [1], "data": b"123"},
        {"__tensor__": True, "dtype": "int64", "shape": [4], "data": b""},
        {"__tensor__": True, "dtype": ["int64"], "shape": [1], "data": b"\0" * 8},
        {"__ndarray__": True, "dtype": "zzz", "shape": [1], "data": b"1"},
    ],
)
@pytest.mark.parametrize("padding", [0, 200_000])
def test_marked_map_that_does_not_fit_is_a_decode_error(marked, padding):
    with pytest.raises(PayloadDecodeError):
        OmniSerializer.deserialize(msgspec.msgpack.encode({"a": marked, "b": b"\0" * padding}))


@calm
@given(st.binary(max_size=200))
def test_foreign_bytes_decode_or_are_a_decode_error(data):
    with contextlib.suppress(PayloadDecodeError):
        OmniSerializer.deserialize(data)


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
)
plain = st.recursive(
    scalars | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", max_size=3) | st.integers(0, 9), inner)
    ),
    max_leaves=20,
)


@calm
@given(plain)
def test_plain_values_round_trip(value):
    assert roundtrip(value) == value


@calm
@given(plain)
def test_large_and_small_messages_decode_alike(value):
    data = OmniSerializer.serialize({"v": value, "pad": b"\0" * 140_000, "list": [value, b"\0" * 140_000]})
    assert wire.decode(memoryview(data))["v"] == value
    assert OmniSerializer.deserialize(data)["list"][0] == value
