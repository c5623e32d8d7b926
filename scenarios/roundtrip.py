"""Round trip: what a producer puts is what a consumer gets, whatever its type and size."""

from typing import Any

from omni_verify.harness.scenario import scenario
from omni_verify.harness.script import Script

_LENGTHS = (0, 1, 2, 511, 512, 513, 8_180, 8_192, 65_536, 2 * 1024 * 1024)
"""Codes of 8 bytes: around a page, around 64 KiB, and 16 MiB."""


def _same(sent: Any, got: Any) -> bool:
    """Compare by value, type, dtype and shape; a tuple may arrive as a list."""
    import torch

    if isinstance(sent, torch.Tensor):
        alike = isinstance(got, torch.Tensor) and got.dtype == sent.dtype and got.shape == sent.shape
        return alike and torch.equal(got, sent)
    if isinstance(sent, dict):
        return (
            isinstance(got, dict)
            and sent.keys() == got.keys()
            and all(_same(v, got[k]) for k, v in sent.items())
        )
    if isinstance(sent, list | tuple):
        alike = isinstance(got, list | tuple) and len(got) == len(sent)
        return alike and all(map(_same, sent, got))
    return type(sent) is type(got) and bool(sent == got)


def _values() -> dict[str, Any]:
    import torch

    dtypes = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
    base = torch.arange(24, dtype=torch.int64).reshape(4, 6)
    return {
        **{d: torch.tensor([0, 1, 1, 0, 1]).to(getattr(torch, d)) for d in dtypes},
        "complex64": torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex64),
        "no-dimension": torch.tensor(7),
        "no-dimension-bool": torch.tensor(False),
        "no-row": torch.empty((0,), dtype=torch.int64),
        "two-by-none": torch.empty((2, 0), dtype=torch.float32),
        "transposed": base.t(),
        "a-slice": base[1:3, 2:4],
        "a-stride": base[:, ::2],
        "containers": {"empty-map": {}, "empty-list": [], "empty-text": "", "empty-bytes": b"", "none": None},
        "numbers": [0, -1, 2**62, 0.0, 1.5, True, False],
        "nested": [[{"layers": {0: torch.ones(2), 24: torch.zeros(1, 3)}}], ("a", (1, 2))],
        "text": "请求 \u0000 é",
    }


def _through(s: Script, value: Any, key: str) -> Any:
    writer, reader = s.connectors
    done = s.attempt(writer.put, "1", "2", key, value)
    got = s.attempt(reader.get, "1", "2", key)
    if not (isinstance(done, tuple) and done[0]) or not isinstance(got, tuple):
        return f"put {done}, get {got}"
    s.expect(
        "I18",
        got[1] == done[1],
        "put and get name the same size",
        expected=str(done[1]),
        found=got[1],
        key=key,
    )
    return got[0]


@scenario("roundtrip/types", invariants=("I15", "I17", "I18"), source="vllm-omni#5739; vllm-omni#6627")
def types(s: Script) -> None:
    """Every dtype, shape and container that a stage may send, one after the other: each arrives with
    equal value, dtype and shape, and the keys of a layer map are still integers."""
    s.connector(1), s.connector(2)
    for name, value in _values().items():
        got = _through(s, {"value": value}, s.key(name, 1, 0))
        fine = isinstance(got, dict) and _same(value, got.get("value"))
        s.expect(
            "I17" if name == "nested" else "I15",
            fine,
            f"a payload with {name} arrives unchanged",
            expected=repr(value)[:120],
            found=repr(got)[:120],
            key=name,
        )
    s.expect_no_residue("I18", "a value that was consumed")


@scenario(
    "roundtrip/sizes", invariants=("I18",), source="conformance contract: payload sizes", explorable=False
)
def sizes(s: Script) -> None:
    """From one byte to 16 MiB, around the page size and beyond: each arrives whole and leaves nothing."""
    import torch

    s.connector(1), s.connector(2)
    s.expect("I18", _through(s, {}, s.key("least", 1, 0)) == {}, "a payload of one byte arrives", key="least")
    for length in _LENGTHS:
        codes = torch.arange(length, dtype=torch.int64)
        got = _through(s, s.target.payload(codes=codes, left_context_size=0), s.key(f"n{length}", 1, 0))
        found = got["codes"]["audio"] if isinstance(got, dict) and "codes" in got else got
        s.expect(
            "I18",
            _same(codes, found),
            f"{length} codes arrive whole",
            expected=f"{length} codes",
            found=f"{found!r:.80}",
            key=f"n{length}",
        )
        s.expect_no_residue("I18", f"a consumed value of {length} codes")


@scenario(
    "roundtrip/own-memory",
    invariants=("I15", "I18"),
    source="pytorch#17499; vllm-omni#1103",
    explorable=False,
)
def own_memory(s: Script) -> None:
    """What a consumer got is its own: it can be written, the producer's later writes and a later put
    of the same key do not change it, neither for small values nor for large ones."""
    import torch

    writer, reader = s.connector(1), s.connector(2)
    for length in (8, 200_000):
        key = s.key(f"n{length}", 1, 0)
        codes = torch.arange(length, dtype=torch.int64)
        writer.put("1", "2", key, s.target.payload(codes=codes, left_context_size=0))
        codes += 1
        got = reader.get("1", "2", key)[0]["codes"]["audio"]
        s.expect(
            "I15",
            got[0] == 0 and got[-1] == length - 1,
            "a later write of the producer is not seen",
            found=got,
        )
        writer.put("1", "2", key, s.target.payload(codes=codes, left_context_size=0))
        changed = s.attempt(got.add_, 5)
        s.expect("I15", not isinstance(changed, Exception), "what arrived is writable", found=changed)
        s.expect("I18", got[0] == 5, "a later put of the same key is not seen", found=got[0])
        second = reader.get("1", "2", key)
        fine = second is not None and _same(codes, second[0]["codes"]["audio"])
        s.expect("I18", fine, "and the later value arrives untouched", found=second)


def _dyed(label: str, chunk_id: int, length: int) -> Any:
    """Return that many codes, all of them the chunk's own number."""
    import torch

    return torch.full((length,), 100 * ord(label[0]) + chunk_id, dtype=torch.int64)


def _put_dyed(s: Script, label: str, chunk_id: int, length: int) -> None:
    payload = s.target.payload(codes=_dyed(label, chunk_id, length), left_context_size=0)
    s.connectors[0].put("1", "2", s.key(label, 1, chunk_id), payload)


def _take_dyed(s: Script, label: str, chunk_id: int, length: int) -> None:
    got = s.attempt(s.connectors[1].get, "1", "2", s.key(label, 1, chunk_id))
    found = got[0]["codes"]["audio"] if isinstance(got, tuple) else got
    expected = _dyed(label, chunk_id, length)
    s.expect(
        "I18",
        _same(expected, found),
        f"chunk {chunk_id} of {label} arrives with its own bytes",
        expected=f"{length} times {int(expected[0])}",
        found=f"{found!r:.80}",
        key=f"{label}_1_{chunk_id}",
    )


@scenario(
    "roundtrip/memory-reused",
    invariants=("I18",),
    source="vllm-omni#5917; transports that allocate from a pool",
    explorable=False,
)
def memory_reused(s: Script) -> None:
    """Large values come and go while others wait unread, one of them from first to last: whatever a
    connector does with the memory of consumed values, each value arrives with its own bytes."""
    s.connector(1), s.connector(2)
    length, waiting, rounds = 40_000, 2, 8

    def put(label: str, chunk_id: int) -> None:
        _put_dyed(s, label, chunk_id, length + chunk_id)

    def take(label: str, chunk_id: int) -> None:
        _take_dyed(s, label, chunk_id, length + chunk_id)

    put("slow", 0)
    for chunk_id in range(rounds):
        put("R", chunk_id)
        if chunk_id >= waiting:
            take("R", chunk_id - waiting)
    for chunk_id in range(rounds - waiting, rounds):
        take("R", chunk_id)
    take("slow", 0)
    s.expect_no_residue("I18", "consumed values")


@scenario(
    "roundtrip/memory-contended",
    invariants=("I18", "I26"),
    source="vllm-omni#5917; transports that allocate from a pool",
)
def memory_contended(s: Script) -> None:
    """A producer's second thread puts a large value while its first one is in the middle of another, after
    values were consumed and left their memory behind: each arrives with its own bytes."""
    s.connector(1), s.connector(2)

    def put(label: str, chunk_id: int) -> None:
        _put_dyed(s, label, chunk_id, 10_000)

    def take(label: str, chunk_id: int) -> None:
        _take_dyed(s, label, chunk_id, 10_000)

    for chunk_id in range(2):
        put("C", chunk_id)
    for chunk_id in range(2):
        take("C", chunk_id)

    def put_two(label: str) -> None:
        put(label, 0)
        put(label, 1)

    s.actor("first", put_two, "A")
    s.actor("second", put_two, "B")
    point = "seg.create" if s.has_point("seg.create") else "put"
    s.run_order(
        f"first:{point}.enter(A_1_0) < second:put.enter(B_1_0)",
        f"second:put.exit(B_1_0) < first:{point}.exit(A_1_0)",
    )
    for label in ("A", "B"):
        for chunk_id in range(2):
            take(label, chunk_id)
    s.expect_no_residue("I26", "consumed values")


@scenario("roundtrip/metadata", invariants=("I16",), source="article section 4; vllm-omni#5917")
def metadata(s: Script) -> None:
    """The payload does not depend on transport metadata: with what put returned, with the same under
    its key, with another transport's, and with none at all, get gives the identical object, and no
    model field travels outside the payload."""
    writer, reader = s.connector(1), s.connector(2)
    forms = ("none", "as-returned", "under-its-key", "of-another-transport")
    for name in forms:
        key = s.key(name, 1, 0)
        done = writer.put("1", "2", key, s.payload(name, 4))
        handles = {
            "as-returned": done[2],
            "under-its-key": {key: done[2]},
            "of-another-transport": {"source_host": "127.0.0.1", "source_port": 1},
        }
        got = s.attempt(reader.get, "1", "2", key, handles.get(name))
        whole = isinstance(got, tuple) and s.frames(got) == [(name, 1, i) for i in range(4)]
        s.expect(
            "I16", whole, f"metadata {name}: the payload arrives", expected="4 frames", found=got, key=name
        )
        context = got[0].get("meta", {}).get("left_context_size") if isinstance(got, tuple) else None
        s.expect(
            "I16",
            context == 0,
            f"metadata {name}: the context size is in the payload",
            found=context,
            key=name,
        )
        s.expect(
            "I16", "left_context_size" not in repr(done[2]), "no model field in the metadata", found=done[2]
        )
    s.expect_no_residue("I16", "a value that was consumed")


@scenario("roundtrip/unserialisable", invariants=("I27",), source="vllm-omni#5755; vllm-omni#4855")
def unserialisable(s: Script) -> None:
    """A value has no wire form, or the serialiser raises: put returns False, nothing is left, not even
    for close to find, and the key can be used."""
    writer, reader = s.connector(1), s.connector(2)
    key = s.key("R", 1, 0)
    fault = s.fault("ser", error=TypeError("injected: no wire form"), note="the serialiser raises")
    for what, value in (
        ("that makes the serialiser raise", s.payload()),
        ("without a wire form", {"it": object()}),
    ):
        done = s.attempt(writer.put, "1", "2", key, value)
        refused = isinstance(done, tuple) and done[0] is False
        s.expect(
            "I27", refused, f"a value {what} is refused by a result", expected="(False, 0, None)", found=done
        )
        s.expect_no_residue("I27", f"a value {what}")
    s.expect("I27", fault.struck == 1, "the fault struck", found=fault.struck)
    writer.put("1", "2", key, s.payload())
    s.expect("I27", len(s.frames(reader.get("1", "2", key))) == 4, "the key can be used afterwards")


@scenario(
    "roundtrip/close-while-reading",
    invariants=("I22", "I26"),
    source="conformance contract: close",
    weak_spots=("W3",),
)
def close_while_reading(s: Script) -> None:
    """The producer's connector is closed while a reader holds the lock of its chunk: the reader gets
    all of it or nothing, close raises nothing, and nothing is left."""
    writer, reader = s.connector(1), s.connector(2)
    key = s.key("R", 1, 0)
    writer.put("1", "2", key, s.payload())

    def closed_or_locked_out() -> bool:
        return s.seen_point("closer:close.exit") or s.seen_point("closer:lock.flock.exit(R_1_0)")

    s.pause("seg.read", "R_1_0", until=closed_or_locked_out, what="the close, or its wait")
    got: list[Any] = []
    s.actor("reader", lambda: got.append(reader.get("1", "2", key)))
    s.actor("closer", writer.close)
    s.run_order("reader:seg.read.enter(R_1_0) < closer:close.enter")
    frames = s.frames(got[0])
    s.expect("I26", len(frames) in (0, 4), "the reader gets all or nothing", found=frames)
    s.expect_no_residue("I22", "close during a read")
