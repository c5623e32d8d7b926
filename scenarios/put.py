"""Put: what it leaves when it cannot store, and what a second put of a key means."""

import errno

from omni_verify.harness.scenario import scenario
from omni_verify.harness.script import Script


@scenario("put/enospc", invariants=("I27",), weak_spots=("W21",), source="vllm-omni#7636")
def enospc(s: Script) -> None:
    """The segment cannot be created because no space is left. The put reports failure and takes its
    lock file along; nothing is left, not even for close to find."""
    connector = s.connector(1)
    fault = s.fault("seg.write", error=OSError(errno.ENOSPC, "No space left on device"), note="no space left")
    key = s.key("R", 1, 0)
    result = connector.put(from_stage="1", to_stage="2", put_key=key, data=s.payload())
    s.expect("I27", fault.struck == 1, "the fault struck", found=fault.struck)
    s.expect(
        "I27",
        result[0] is False,
        "a put without space reports failure",
        expected="(False, 0, None)",
        found=result,
    )
    s.expect_no_residue("I27", "a failed put")
    connector.close()
    s.expect_no_residue("I27", "close after a failed put")


@scenario("put/no-inode", invariants=("I27",), source="vllm-omni#6033", shm_options="nr_inodes=4,size=1m")
def no_inode(s: Script) -> None:
    """The file system has no free inode: the put reports failure and leaves nothing."""
    connector = s.connector(1)
    with s.full_of_files():
        result = connector.put(from_stage="1", to_stage="2", put_key=s.key("R", 1, 0), data=s.payload())
        s.expect(
            "I27",
            result[0] is False,
            "a put without a free inode reports failure",
            expected="False",
            found=result,
        )
    s.expect_no_residue("I27", "a failed put")


@scenario(
    "put/shm-full",
    invariants=("I27b",),
    weak_spots=("W1",),
    source="vllm-omni#6033; cpython#114390",
    shm_options="size=256k",
    crash="I27b",
)
def shm_full(s: Script) -> None:
    """A payload that does not fit into a full /dev/shm: the put returns False and the process lives."""
    import torch

    connector = s.connector(1)
    data = s.target.payload(codes=torch.zeros(64 * 1024, dtype=torch.int64), left_context_size=0)
    result = connector.put(from_stage="1", to_stage="2", put_key=s.key("R", 1, 0), data=data)
    s.expect(
        "I27b",
        result[0] is False,
        "a put into a full file system reports failure",
        expected="False",
        found=result,
    )
    s.expect_no_residue("I27b", "a put that did not fit")
    small = connector.put(from_stage="1", to_stage="2", put_key=s.key("R", 1, 0), data=s.payload())
    s.expect("I27b", small[0], "a put that fits works afterwards", expected="True", found=small)
    got = connector.get("1", "2", s.key("R", 1, 0))
    s.expect("I27b", len(s.frames(got)) == 4, "and its value is readable", found=got)


@scenario("put/existing-unread-key", invariants=("I18",), source="vllm-omni connector: a name that exists")
def existing_unread_key(s: Script) -> None:
    """A key is put again while its first value is unread: the later value wins, intact, once."""
    writer, reader = s.connector(1), s.connector(2)
    key = s.key("R", 1, 0)
    for generation in (1, 2):
        done = writer.put(
            from_stage="1",
            to_stage="2",
            put_key=key,
            data=s.payload(frames=3 + generation, generation=generation),
        )
        s.expect("I18", done[0], f"put {generation} succeeds", found=done)
    frames = s.frames(reader.get("1", "2", key))
    s.expect(
        "I18",
        frames == [("R", 2, i) for i in range(5)],
        "the later value wins, intact",
        expected="5 frames of value 2",
        found=frames,
    )
    s.expect("I18", reader.get("1", "2", key) is None, "and is delivered once")
    s.expect_no_residue("I18", "the consumed key")


@scenario(
    "put/lock-removed-by-late-reader",
    invariants=("I26",),
    weak_spots=("W3",),
    source="vllm-omni#5224; lockgate#48",
)
def lock_removed_by_late_reader(s: Script) -> None:
    """A reader has copied a value and is about to remove the lock file when the same key is put
    again. The new value must stay readable: the reader may not take the new put's lock away."""
    writer, reader = s.connector(1), s.connector(2)
    key = s.key("R", 1, 0)
    writer.put(from_stage="1", to_stage="2", put_key=key, data=s.payload(generation=1))

    def second_put_is_through_or_locked_out() -> bool:
        # A reader that still holds the lock keeps the writer out; one that let go must see it pass.
        if s.seen_point("reader:lock.unlock.exit(R_1_0)"):
            return s.seen_point("writer:put.exit(R_1_0)")
        return s.seen_point("writer:lock.flock.enter(R_1_0)")

    s.pause(
        "lock.remove",
        "R_1_0",
        until=second_put_is_through_or_locked_out,
        what="the second put is through, or locked out",
    )
    s.actor("reader", reader.get, "1", "2", key)
    s.actor("writer", writer.put, from_stage="1", to_stage="2", put_key=key, data=s.payload(generation=2))
    s.run_order("reader:seg.read.exit(R_1_0) < writer:put.enter(R_1_0)")
    s.require("reader:lock.remove.enter(R_1_0)", "writer:put.exit(R_1_0)")
    frames = s.frames(reader.get("1", "2", key))
    s.expect(
        "I26",
        frames == [("R", 2, i) for i in range(4)],
        "the value of the second put is readable",
        expected="4 frames of value 2",
        found=frames or "None",
    )
