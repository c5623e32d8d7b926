"""Weak spots of released code, as scenarios and docstrings name them: W1 to W35."""

from __future__ import annotations

from omni_verify.contracts.entry import WeakSpot

__all__ = ["WEAK_SPOTS"]

WEAK_SPOTS = (
    WeakSpot(
        "W1",
        "Creating a segment truncates sparsely, and the copy into it dies of SIGBUS when /dev/shm is full.",
        ("I27b",),
        "Segments are filled by write(); ENOSPC fails the put and removes segment and lock file.",
    ),
    WeakSpot(
        "W2",
        "Parking deques and ready sets are changed by the save thread while the scheduler iterates "
        "over them.",
        ("I44b",),
        "Other threads only post a cleanup for a registration; the scheduler thread carries it out.",
    ),
    WeakSpot(
        "W3",
        "Lock files are addressed by path and removed outside the lock; cleanup takes no lock: a "
        "late reader deletes the next put's lock file or reads half of its object.",
        ("I26", "I18"),
        "A held lock counts only while its path names it, and is removed only while held; cleanup "
        "takes it too.",
    ),
    WeakSpot(
        "W4",
        "A successful terminal put cleans up the receiver half without knowing whose registration it is.",
        ("I38b", "I46"),
        "Cleanup carries the registration's identity; the wait clock lives as long as the waiting state.",
    ),
    WeakSpot(
        "W5",
        "A session-wide chunk counter is mixed with a segment's frame list, so that later segments "
        "lose frames.",
        ("I13",),
        "All chunk arithmetic is local to the segment.",
    ),
    WeakSpot(
        "W6",
        "Validity of a whole tensor is judged by its first row.",
        ("I13b",),
        "Each row is judged alone.",
    ),
    WeakSpot(
        "W7",
        "A failed put of data does not advance the counter, and the next chunk takes its number.",
        ("I36",),
        "The stream ends with an error on both sides.",
    ),
    WeakSpot(
        "W8",
        "A payload that does not decode is consumed and reported as not there; its receiver polls "
        "until the deadline.",
        ("I20", "I46"),
        "get raises a typed error and the receiver fails the request at once.",
    ),
    WeakSpot(
        "W9",
        "Releasing by an external id's prefix is not fenced by generation.",
        ("I50", "I30"),
        "Release carries the generation and is skipped once a newer one lives.",
    ),
    WeakSpot(
        "W10",
        "A put that returns after close or shutdown leaves its segment.",
        ("I53",),
        "The closed flag is tested after writing, under the key lock, and the put undoes itself.",
    ),
    WeakSpot(
        "W11",
        "An exception of the reap kills the save thread silently.",
        ("I37b",),
        "The loop contains it; liveness of the threads is part of health.",
    ),
    WeakSpot(
        "W12",
        "The edge validator ignores a consumer that is set to chunk behind a producer that cannot.",
        ("I4b",),
        "The strict check refuses it.",
    ),
    WeakSpot(
        "W13",
        "A commit sets the end flag before it replaces prompt and counters, so that old values "
        "satisfy the finish test.",
        ("I43",),
        "Flags are set last, under the receiver lock.",
    ),
    WeakSpot(
        "W14",
        "Segment generations and metrics are changed outside the locks.",
        ("I32",),
        "They move under the sender lock.",
    ),
    WeakSpot(
        "W15",
        "Code2Wav falls back for a whole batch when one row's metadata or length is odd.",
        ("I48",),
        "Rows are handled, and refused, one by one.",
    ),
    WeakSpot(
        "W16",
        "A key is used as a file name unchecked: a slash or a long id makes every put fail.",
        ("I27", "I36"),
        "Both ends map unusable keys to a hashed file name.",
    ),
    WeakSpot(
        "W17",
        "Abort reclaims only for one connector class; others, and wrapped ones, leak.",
        ("I51",),
        "A capability of the connector decides, not its class.",
    ),
    WeakSpot(
        "W18",
        "Offline decoding drops the tail at every inner window boundary.",
        ("I47b",),
        "Windows are cut in absolute samples, the tail only once.",
    ),
    WeakSpot(
        "W19",
        "Chunks that nobody read stay after a successful end.",
        ("I50", "I51"),
        "The end of all stages releases what is left; nothing is put beyond the final stage.",
    ),
    WeakSpot(
        "W20",
        "Keys have no generation: a reused external id reads the old request's chunks.",
        ("I38c",),
        "Old keys are released before the id may be used again.",
    ),
    WeakSpot(
        "W21",
        "A segment without lock file is unreadable for ever, a failed put leaves a lock file, and a "
        "lock file that cannot be removed voids a consumed get.",
        ("I22", "I27"),
        "The lock file is auxiliary: made when missing, removed by a failed put, and never a reason "
        "to drop data.",
    ),
    WeakSpot(
        "W22",
        "A decode step of more than one row is dropped with a warning.",
        ("I13",),
        "Rows are concatenated.",
    ),
    WeakSpot(
        "W23",
        "The aligner takes the first element of a list of waveforms.",
        ("I49",),
        "The list is concatenated.",
    ),
    WeakSpot(
        "W24",
        "In list mode the count of emitted samples may move backwards.",
        ("I42",),
        "It only grows; the mode follows the output kind, not the Python type.",
    ),
    WeakSpot(
        "W25",
        "A save after cleanup starts a fresh generation that nobody owns.",
        ("I32", "I51"),
        "Generations are made at admission; a late save is refused.",
    ),
    WeakSpot(
        "W26",
        "An exception of a processor is swallowed: frames are lost and the stream goes on, or its "
        "terminal is never sent.",
        ("I36", "I14"),
        "The stream fails at once on both sides.",
    ),
    WeakSpot(
        "W27",
        "A live id can be admitted twice, and a lost upstream finish holds a complete output for ever.",
        ("I6", "I7"),
        "Duplicates are refused and the hold is bounded.",
    ),
    WeakSpot(
        "W28",
        "Collecting a connector closes it and unlinks unread chunks.",
        ("I53", "I18"),
        "There is no destructor; close is explicit, and a crash journal covers killed senders.",
    ),
    WeakSpot(
        "W29",
        "The resource tracker unlinks live segments when an attached process exits, and grows without bound.",
        ("I52", "I53"),
        "Segments are made with posix_ipc, which has no tracker.",
    ),
    WeakSpot(
        "W30",
        "One save thread carries all requests, so that a slow put delays every other stream.",
        (),
        "Latency coupling is measured; it is no error of results.",
    ),
    WeakSpot(
        "W31",
        "A failed send is only logged, and its consumer waits for the deadline.",
        ("I36", "I46"),
        "The request finishes with an error.",
    ),
    WeakSpot(
        "W32",
        "Plain dicts with certain keys decode to another type.",
        ("I15",),
        "Reserved keys are refused when the payload is written.",
    ),
    WeakSpot(
        "W33",
        "A configuration without the attribute counts as a chunk receiver.",
        ("I9",),
        "The attribute is required.",
    ),
    WeakSpot(
        "W34",
        "A put that stores and then raises leaves sender and receiver with different chunk numbers.",
        ("I36", "I28"),
        "What may exist counts as sent, and the stream fails.",
    ),
    WeakSpot(
        "W35",
        "A ready marker is removed on the scheduler thread without the lock that the receive thread uses.",
        ("I44b",),
        "It is removed under the lock.",
    ),
)
