"""Payload: what arrives is judged by its shape, not trusted."""

from typing import Any

from omni_verify.harness.scenario import scenario
from omni_verify.harness.script import Script


def _wrong_shapes() -> dict[str, Any]:
    import torch

    finished = torch.tensor(False)
    return {
        "a-list": [1, 2, 3],
        "a-string": "chunk",
        "an-int": 7,
        "an-empty-map": {},
        "no-codes": {"meta": {"finished": finished}},
        "float-codes": {
            "codes": {"audio": torch.tensor([0.5, 1.5])},
            "meta": {"finished": finished, "left_context_size": 0},
        },
        "codes-no-map": {"codes": [1, 2], "meta": {"finished": finished}},
        "meta-no-map": {"codes": {"audio": torch.tensor([1, 2])}, "meta": ["finished"]},
    }


@scenario(
    "payload/wrong-shape", invariants=("I15",), weak_spots=("W8",), source="vllm-omni#5917; vllm-omni#4855"
)
def wrong_shape(s: Script) -> None:
    """A producer of another make sends objects of the wrong shape. Each is surfaced as an error of its
    request; none is skipped silently with its chunk number, none kills the receive thread."""
    consumer, writer = s.consumer(), s.connector(1)
    shapes = _wrong_shapes()
    for name, payload in shapes.items():
        consumer.admit(name)
        done = s.attempt(writer.put, "1", "2", s.key(name, 1, 0), payload)
        if not (isinstance(done, tuple) and done[0]):
            # A connector that refuses to carry the shape has surfaced it where it arose.
            consumer.abort(name)
    for name in shapes:
        handle = consumer.handle(name)
        if handle.over:
            continue
        consumer.consume(name, frames=1)
        surfaced = bool(handle.got.error)
        s.expect(
            "I15",
            surfaced,
            f"a payload that is {name} is surfaced",
            expected="an error of its request at once",
            found="silence until the deadline"
            if handle.got.waiting
            else f"delivered as {handle.got.broken or handle.got.frames}",
            key=name,
        )
        if not handle.over:
            consumer.abort(name)
