"""Meta: what a chunk says about itself reaches the next stage, and its end flag means what it says."""

from typing import Any

from omni_verify.harness.scenario import scenario
from omni_verify.harness.script import Script

_FIELDS: dict[str, Any] = {
    "request_id": "another",
    "next_stage_prompt_len": 7,
    "ref_code_len": 5,
    "ref_context_size": 2,
    "ref_context_request_id": "a voice",
    "ref_context_included": True,
    "codec_chunk_frames": 25,
    "codec_left_context_frames": 24,
    "chunk_seq": 4,
    "last_chunk": False,
    "omni_final_stage_id": 2,
    "audio_seed": 42,
    "streaming_condition_seq": 1,
}
"""Fields of ``meta`` with values that no default has; a target that lacks one is not asked for it."""


@scenario("meta/every-field-arrives", invariants=("I15", "I11"), source="vllm-omni#4421; vllm-omni#5917")
def every_field_arrives(s: Script) -> None:
    """A chunk carries every field of `meta` that its schema has. The stage that reads it sees each of
    them with its value; a zero is a value."""
    import torch

    writer, consumer = s.connector(1), s.consumer()
    known = set(s.target.payload(left_context_size=0).meta.__struct_fields__)
    fields = {name: value for name, value in _FIELDS.items() if name in known}
    handle = consumer.admit("R")
    codes = s.payload("R", 2).codes.audio
    payload = s.target.payload(codes=codes, left_context_size=0, finished=torch.tensor(False), **fields)
    done = writer.put("1", "2", s.key("R", 1, 0), payload)
    s.expect("I15", done[0] and fields, "the chunk was put", found=f"{done}, fields {sorted(fields)}")
    consumer.consume("R", frames=2)
    seen = (handle.request.additional_information or {}).get("meta") or {}
    for name, value in fields.items():
        s.expect(
            "I15",
            seen.get(name) == value,
            f"meta.{name} arrives",
            expected=repr(value),
            found=seen.get(name),
            key=name,
        )
    s.expect("I11", seen.get("left_context_size") == 0, "a context of 0 frames arrives as 0", found=seen)
    consumer.abort("R")


def _flags() -> dict[str, tuple[Any, bool]]:
    import torch

    return {
        "tensor-false": (torch.tensor(False), False),
        "vector-false": (torch.tensor([False]), False),
        "false": (False, False),
        "absent": (None, False),
        "two-values": (torch.tensor([True, True]), False),
        "tensor-true": (torch.tensor(True), True),
        "vector-true": (torch.tensor([True]), True),
        "true": (True, True),
    }


@scenario("meta/finished-flag", invariants=("I17b",), source="vllm-omni#4855; article section 4.2")
def finished_flag(s: Script) -> None:
    """The end flag comes as a tensor of no dimension, of one, as a bool, or not at all: it ends the
    stream exactly when it is one true value. A tensor that says False is no end, though it exists."""
    writer, consumer = s.connector(1), s.consumer()
    for name, (flag, ends) in _flags().items():
        handle = consumer.admit(name)
        meta = {"left_context_size": 0, **({} if flag is None else {"finished": flag})}
        done = writer.put(
            "1", "2", s.key(name, 1, 0), {"codes": {"audio": s.payload(name, 2).codes.audio}, "meta": meta}
        )
        s.expect("I17b", done[0], f"a chunk with the flag {name} was put", found=done, key=name)
        consumer.consume(name, frames=2)
        consumer.tick()
        s.expect(
            "I17b",
            handle.got.finishes == ends,
            f"the flag {name} is read",
            expected=f"end: {ends}",
            found=handle.got,
            key=name,
        )
        if not handle.over:
            consumer.abort(name)


@scenario("meta/flat-output", invariants=("I17",), source="vllm-omni#5739; article section 4.2")
def flat_output(s: Script) -> None:
    """A model step hands over a flat map. The processor gets it nested again, layer numbers as
    integers, and a name with a dot of no known category is split at its first dot."""
    import torch

    producer = s.producer()
    seen: list[Any] = []

    def processor(
        transfer_manager: Any, multimodal_output: Any, request: Any, is_finished: object = None
    ) -> None:
        seen.append(multimodal_output)

    s.target.set_processor(producer.adapter, processor)
    flat = {
        "hidden_states.layer_0": torch.zeros(1, 2),
        "hidden_states.layer_24": torch.ones(1, 2),
        "hidden_states.output": torch.full((1, 2), 2.0),
        "codes.audio": torch.tensor([1, 2, 3]),
        "plain": 5,
    }
    producer.admit("R")
    producer.adapter.save_async(flat, producer.handle("R").request)
    s.drain(producer)
    states = seen[0].get("hidden_states", {}) if seen else {}
    layers = states.get("layers", {})
    s.expect(
        "I17",
        sorted(layers, key=str) == [0, 24],
        "layer numbers are integers",
        expected="0, 24",
        found=list(layers),
    )
    s.expect("I17", "output" in states, "the other hidden states are beside them", found=list(states))
    fine = bool(seen) and seen[0].get("plain") == 5 and seen[0]["codes"]["audio"].tolist() == [1, 2, 3]
    s.expect("I17", fine, "the rest arrives nested and unchanged", found=seen)
    producer.abort("R")
