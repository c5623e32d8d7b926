"""Get: not yet, or the whole object, and never a wait."""

import errno
import fcntl

from omni_verify.harness.scenario import scenario
from omni_verify.harness.script import Script


def _window(s: Script, point: str) -> None:
    """Read while the writer stands right after `point`; the read gives nothing or the whole object."""
    writer, reader = s.connector(1), s.connector(2)
    key = s.key("R", 1, 0)
    results: list[object] = []

    def read_is_over() -> bool:
        # A release whose reader waits for the lock cannot finish inside the window.
        waits = not s.target.capabilities.reap
        return s.seen_point("reader:get.exit(R_1_0)") or (
            waits and s.seen_point("reader:lock.flock.enter(R_1_0)")
        )

    s.after(point, "R_1_0", until=read_is_over, what="the read inside the window")
    s.actor("writer", writer.put, from_stage="1", to_stage="2", put_key=key, data=s.payload())
    s.actor("reader", lambda: results.append(reader.get("1", "2", key)))
    s.run_order(f"writer:{point}.enter(R_1_0) < reader:get.enter(R_1_0) < writer:put.exit(R_1_0)")
    early = results[0]
    whole = [("R", 1, i) for i in range(4)]
    s.expect(
        "I18",
        early is None or s.frames(early) == whole,
        "a read inside the window gives nothing, or all",
        expected="None or 4 frames",
        found=early,
    )
    if early is None:
        s.expect(
            "I18",
            s.frames(reader.get("1", "2", key)) == whole,
            "the value is readable after the put",
            expected="4 frames",
        )


@scenario("get/not-sized-yet", invariants=("I18",), source="dimos#3671; vllm-omni connector: empty file")
def not_sized_yet(s: Script) -> None:
    """The segment has its name but no size when a reader comes: that reads as "not yet"."""
    _window(s, "seg.create")


@scenario("get/not-filled-yet", invariants=("I18",), source="article section 2.4; vllm-omni#1103")
def not_filled_yet(s: Script) -> None:
    """The segment has its size but not its bytes when a reader comes: that reads as "not yet"."""
    _window(s, "seg.size" if s.has_point("seg.size") else "seg.create")


@scenario("get/busy-lock-returns", invariants=("I24",), source="vllm-omni#8082", explorable=False)
def busy_lock_returns(s: Script) -> None:
    """A writer holds the lock of a key for long: a get of that key returns at once with nothing, so
    that one slow writer does not stall every request of the receiver."""
    writer, reader = s.connector(1), s.connector(2)
    key = s.key("R", 1, 0)
    writer.put(from_stage="1", to_stage="2", put_key=key, data=s.payload())

    def hold_the_lock() -> None:
        with open(s.lock_path(key), "rb+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            s.mark("locked")
            s.mark("unlock")

    s.actor("foreign-writer", hold_the_lock)
    s.actor(
        "reader",
        lambda: s.expect("I24", reader.get("1", "2", key) is None, "a get of a locked key gives nothing"),
    )
    s.run_order("mark(locked) < get.enter(R_1_0)", "reader:get.exit(R_1_0) < mark(unlock)", blocked="I24")
    s.expect(
        "I24", len(s.frames(reader.get("1", "2", key))) == 4, "the value is readable once the lock is free"
    )


@scenario(
    "get/lock-not-removable", invariants=("I19",), weak_spots=("W21",), source="measured on 0.26.0 to 0.30.0"
)
def lock_not_removable(s: Script) -> None:
    """The lock file of a consumed value cannot be removed (no permission): the value was read and
    must be returned; the lock is auxiliary."""
    writer, reader = s.connector(1), s.connector(2)
    key = s.key("R", 1, 0)
    writer.put(from_stage="1", to_stage="2", put_key=key, data=s.payload())
    fault = s.fault(
        "lock.remove",
        "R_1_0",
        error=PermissionError(errno.EACCES, "Permission denied"),
        note="lock file not removable",
    )
    frames: list[object] = []
    s.actor("reader", lambda: frames.extend(s.frames(reader.get("1", "2", key))))
    s.run()
    s.expect("I19", fault.struck, "the fault struck", found=fault.struck)
    s.expect(
        "I19",
        len(frames) == 4,
        "a value that was read is returned",
        expected="4 frames",
        found=frames or "None: the value is lost",
    )
    writer.cleanup(key)


@scenario("get/two-readers", invariants=("I19",), source="conformance contract: consume once")
def two_readers(s: Script) -> None:
    """Two readers want one key at the same moment: exactly one of them gets it."""
    writer, first, second = s.connector(1), s.connector(2), s.connector(2)
    key = s.key("R", 1, 0)
    writer.put(from_stage="1", to_stage="2", put_key=key, data=s.payload())
    got: list[object] = []

    def read(connector: object) -> None:
        result = connector.get("1", "2", key)  # type: ignore[attr-defined]
        if result is not None:
            got.append(result)

    s.actor("first", read, first)
    s.actor("second", read, second)
    s.run_order(
        "first:get.enter(R_1_0) < second:get.exit(R_1_0)", "second:get.enter(R_1_0) < first:get.exit(R_1_0)"
    )
    if not got:
        read(first)
    s.expect("I19", len(got) == 1, "one of two readers gets the object", expected="1", found=len(got))
    s.expect("I19", all(len(s.frames(g)) == 4 for g in got), "and gets all of it")
    s.expect_no_residue("I19", "the consumed key")
