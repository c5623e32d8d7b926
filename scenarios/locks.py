"""Lock files: whoever holds the lock of a path that names another file by now holds nothing."""

import os
from collections.abc import Callable
from typing import Any

from omni_verify.harness.scenario import scenario
from omni_verify.harness.script import Script


def _put(s: Script, connector: Any, key: str, frames: int, generation: int) -> None:
    done = connector.put(
        from_stage="1", to_stage="2", put_key=key, data=s.payload("R", frames, generation=generation)
    )
    s.expect("I26", done[0], f"put of value {generation}", found=done)


def _take(s: Script, connector: Any, key: str, into: list[tuple[str, int, int]]) -> Callable[[], None]:
    """Return an actor's body that reads once and keeps the frames."""
    return lambda: into.extend(s.frames(connector.get("1", "2", key)))


def _expect_second(s: Script, reader: Any, key: str, got: list[tuple[str, int, int]], frames: int) -> None:
    """Judge that value 2 reached somebody, whole: the read that ran meanwhile, or one afterwards."""
    wanted = [("R", 2, i) for i in range(frames)]
    later = [] if got == wanted else s.frames(reader.get("1", "2", key))
    s.expect(
        "I26",
        wanted in (got, later),
        "the value of the second put reaches a reader, whole",
        expected=f"{frames} frames of value 2",
        found=f"during the put: {got or 'None'}; afterwards: {later or 'None'}",
        key="R_1_0",
    )


@scenario(
    "locks/detached-reader",
    invariants=("I26",),
    weak_spots=("W3",),
    source="vllm-omni#5224; lockgate#48; dimos#3671",
)
def detached_reader(s: Script) -> None:
    """A reader has opened the lock file of a value when that value is cleaned up and its key is put
    again. The lock that the reader then takes excludes nobody: it may neither read nor destroy the
    new segment, which has its size and not yet its bytes."""
    writer, reader = s.connector(1), s.connector(2)
    key = s.key("R", 1, 0)
    _put(s, writer, key, 4, 1)
    path = f"/dev/shm/{key}"
    sized = s.has_point("seg.size")

    def half_written() -> bool:
        if not s.seen_point("writer:seg.create.enter(R_1_0)") or not os.path.exists(path):
            return False
        return not sized or os.path.getsize(path) > 0

    s.pause("lock.flock", "R_1_0", until=half_written, what="the second put has half a segment")
    s.after(
        "seg.size" if sized else "seg.create",
        "R_1_0",
        until=lambda: s.seen_point("reader:get.exit(R_1_0)"),
        what="the reader is done",
    )
    got: list[tuple[str, int, int]] = []
    s.actor("reader", _take(s, reader, key, got))
    s.actor("cleaner", writer.cleanup, key)
    s.actor("writer", _put, s, writer, key, 4, 2)
    s.run_order(
        "reader:lock.flock.enter(R_1_0) < cleaner:cleanup.enter(R_1_0)",
        "cleaner:cleanup.exit(R_1_0) < writer:put.enter(R_1_0)",
    )
    s.require("reader:get.exit(R_1_0)")
    _expect_second(s, reader, key, got, 4)


@scenario("locks/cleanup-during-read", invariants=("I26",), weak_spots=("W3",), source="lockgate#48")
def cleanup_during_read(s: Script) -> None:
    """A reader holds the lock of a small value and is about to copy it when the key is cleaned up and
    put again with a larger one. A cleanup that takes no lock lets the reader cut a piece out of the
    new value and remove the rest: the new value must reach a reader, whole."""
    writer, reader = s.connector(1), s.connector(2)
    key = s.key("R", 1, 0)
    _put(s, writer, key, 2, 1)

    def replaced_or_locked_out() -> bool:
        return s.seen_point("writer:put.exit(R_1_0)") or s.seen_point("cleaner:lock.flock.exit(R_1_0)")

    s.pause(
        "seg.read",
        "R_1_0",
        until=replaced_or_locked_out,
        what="the cleanup and the second put, or their wait",
    )
    got: list[tuple[str, int, int]] = []
    s.actor("reader", _take(s, reader, key, got))
    s.actor("cleaner", writer.cleanup, key)
    s.actor("writer", _put, s, writer, key, 8, 2)
    s.run_order(
        "reader:seg.read.enter(R_1_0) < cleaner:cleanup.enter(R_1_0)",
        "cleaner:cleanup.exit(R_1_0) < writer:put.enter(R_1_0)",
    )
    if got and got[0][1] == 1:
        got.clear()
    _expect_second(s, reader, key, got, 8)


@scenario("locks/cleanup-after-copy", invariants=("I26",), weak_spots=("W3",), source="lockgate#48")
def cleanup_after_copy(s: Script) -> None:
    """A reader has copied a value and is about to remove its segment when the key is cleaned up and put
    again. The removal goes by name: a cleanup that takes no lock lets it hit the new value."""
    writer, reader = s.connector(1), s.connector(2)
    key = s.key("R", 1, 0)
    _put(s, writer, key, 4, 1)

    def replaced_or_locked_out() -> bool:
        return s.seen_point("writer:put.exit(R_1_0)") or s.seen_point("cleaner:lock.flock.exit(R_1_0)")

    s.pause("seg.unlink", "R_1_0", until=replaced_or_locked_out, what="the second put, or the cleanup's wait")
    got: list[tuple[str, int, int]] = []
    s.actor("reader", _take(s, reader, key, got))
    s.actor("cleaner", writer.cleanup, key)
    s.actor("writer", _put, s, writer, key, 4, 2)
    s.run_order(
        "reader:seg.unlink.enter(R_1_0) < cleaner:cleanup.enter(R_1_0)",
        "cleaner:cleanup.exit(R_1_0) < writer:put.enter(R_1_0)",
    )
    _expect_second(s, reader, key, [], 4)


@scenario("locks/detached-twice", invariants=("I26", "I19"), weak_spots=("W3",), source="lockgate#48")
def detached_twice(s: Script) -> None:
    """One reader holds the lock of a value that was cleaned up, another the lock of the value that was
    put in its place. Only the second is entitled: the new value is delivered once."""
    writer, first, second = s.connector(1), s.connector(2), s.connector(2)
    key = s.key("R", 1, 0)
    _put(s, writer, key, 4, 1)
    s.pause(
        "lock.flock",
        "R_1_0",
        until=lambda: s.seen_point("second:seg.unlink.enter(R_1_0)"),
        what="the second reader has copied the new value",
    )
    s.pause(
        "seg.unlink",
        "R_1_0",
        times=(2,),
        until=lambda: s.seen_point("first:get.exit(R_1_0)"),
        what="the first reader is done",
    )
    got: dict[str, list[tuple[str, int, int]]] = {"first": [], "second": []}
    s.actor("first", _take(s, first, key, got["first"]))
    s.actor("cleaner", writer.cleanup, key)
    s.actor("writer", _put, s, writer, key, 4, 2)
    s.actor("second", _take(s, second, key, got["second"]))
    s.run_order(
        "first:lock.flock.enter(R_1_0) < cleaner:cleanup.enter(R_1_0)",
        "cleaner:cleanup.exit(R_1_0) < writer:put.enter(R_1_0)",
        "writer:put.exit(R_1_0) < second:get.enter(R_1_0)",
    )
    for invariant in ("I26", "I19"):
        s.expect(
            invariant,
            sorted(map(len, got.values())) == [0, 4],
            "the new value is delivered once",
            expected="4 frames to one reader",
            found=got,
            key="R_1_0",
        )
    if s.free:
        writer.cleanup(key)  # both readers may have come before the second put


@scenario("locks/cleanup-inside-put", invariants=("I26", "I22"), weak_spots=("W3",), source="lockgate#48")
def cleanup_inside_put(s: Script) -> None:
    """A put holds its lock and has not made its segment when a cleanup of the same key comes. The one
    or the other is first: afterwards the value is readable, or nothing of it is left, never a segment
    whose lock file is gone."""
    writer, reader = s.connector(1), s.connector(2)
    key = s.key("R", 1, 0)

    def cleaned_or_locked_out() -> bool:
        return s.seen_point("cleaner:cleanup.exit(R_1_0)") or s.seen_point("cleaner:lock.flock.exit(R_1_0)")

    s.pause("seg.write", "R_1_0", until=cleaned_or_locked_out, what="the cleanup, or its wait")
    s.actor("writer", _put, s, writer, key, 4, 2)
    s.actor("cleaner", writer.cleanup, key)
    s.run_order("writer:seg.write.enter(R_1_0) < cleaner:cleanup.enter(R_1_0)")
    frames = s.frames(reader.get("1", "2", key))
    left = s.shm()
    s.expect(
        "I26",
        len(frames) == 4 or not left,
        "a cleanup inside a put leaves a value that nobody can read",
        expected="4 frames, or nothing at all",
        found=f"get gives {frames or 'None'}; left: {', '.join(left)}",
        key="R_1_0",
    )
    writer.cleanup(key)
    s.expect_no_residue("I22", "a second cleanup")


@scenario("locks/cleanup-other-key", invariants=("I21", "I26"), source="conformance contract: exact cleanup")
def cleanup_other_key(s: Script) -> None:
    """While a put of one key holds its lock and is being written, another key is cleaned up: that
    returns at once, and the put is not disturbed."""
    writer, reader = s.connector(1), s.connector(2)
    one, other = s.key("R", 1, 0), s.key("R_1", 0, 0)
    _put(s, writer, other, 2, 1)
    s.actor("writer", _put, s, writer, one, 4, 2)
    s.actor("cleaner", writer.cleanup, other)
    s.run_order(
        "writer:seg.write.enter(R_1_0) < cleaner:cleanup.enter(R_1_0_0)",
        "cleaner:cleanup.exit(R_1_0_0) < writer:seg.write.exit(R_1_0)",
        blocked="I26",
    )
    s.expect("I21", reader.get("1", "0", other) is None, "the cleaned key is gone")
    _expect_second(s, reader, one, [], 4)
    s.expect_no_residue("I26", "one key cleaned, the other consumed")


@scenario(
    "locks/lock-file-gone", invariants=("I18",), weak_spots=("W21",), source="vllm-omni#7636; vllm-omni#7840"
)
def lock_file_gone(s: Script) -> None:
    """A foreign program has removed the lock file of an unread value, as cleaners of temporary files
    do. The lock is auxiliary: the value stays readable, once, and leaves nothing."""
    writer, reader = s.connector(1), s.connector(2)
    key = s.key("R", 1, 0)
    _put(s, writer, key, 4, 2)
    os.unlink(s.lock_path(key))
    frames = s.frames(reader.get("1", "2", key))
    s.expect(
        "I18",
        len(frames) == 4,
        "a value whose lock file is gone is readable",
        expected="4 frames",
        found=frames or "None, for ever",
        key="R_1_0",
    )
    writer.cleanup(key)
    s.expect_no_residue("I18", "a value whose lock file was removed")
