"""The lifetime of one stream on the sending side."""

from __future__ import annotations

from typing import Any

__all__ = ["SenderGeneration"]


class SenderGeneration:
    """Fence one stream of an external id; never on the wire (all fields under the sender lock).

    An external id may be used again, so identity, not the id, decides who owns the sender state: a task, a
    cleanup or a release acts only while ``_sender_tokens[external_req_id] is generation`` (I30, I32).

    Attributes:
        owner: the scheduler's request object that fed the stream last; marked when the generation retires
            (W25).
        is_new: V has not begun its first chunk.
        in_flight: V is inside the processor or the connector for this stream.
        cancelled: no new chunk is admitted; what is queued before a terminal still goes out.
        terminal_pending: the terminal is queued and not yet put: the consumer's only end of stream
            (vllm-omni#6670).
        terminal_sent: the terminal was put with success, and stays readable after the retirement (I33).
        num_puts: chunk ids ``0 .. num_puts - 1`` may exist; raised before each put (I31).
        aborted: the client left; nobody reads an error terminal any more.
        release_requested: all stages are done; the terminal is reclaimed as well (I50).
        failure: why the stream is failed, or None. Set once; no data is put afterwards (W7, I36).
        ended: the producer's own end has been seen.
        error_ids: chunk ids at which the error terminal has yet to be put.
        error_attempts: rounds of error terminal puts so far.
        due: monotonic time of the next retry, or of the end of the linger time.
        lingering: the error terminal is out, and the generation waits for the consumer to read it.
    """

    __slots__ = (
        "aborted",
        "cancelled",
        "due",
        "ended",
        "error_attempts",
        "error_ids",
        "external_req_id",
        "failure",
        "in_flight",
        "is_new",
        "lingering",
        "num_puts",
        "owner",
        "release_requested",
        "terminal_pending",
        "terminal_sent",
    )

    def __init__(self, external_req_id: str, owner: Any) -> None:
        self.external_req_id = external_req_id
        self.owner = owner
        self.is_new = True
        self.in_flight = False
        self.cancelled = False
        self.terminal_pending = False
        self.terminal_sent = False
        self.num_puts = 0
        self.aborted = False
        self.release_requested = False
        self.failure: str | None = None
        self.ended = False
        self.error_ids: tuple[int, ...] = ()
        self.error_attempts = 0
        self.due = 0.0
        self.lingering = False

    def may_put(self, *, is_terminal: bool) -> bool:
        """Tell whether a task of this generation may still reach the wire.

        ``cancelled`` vetoes neither the terminal nor the data queued before it: a parked session that ends
        has frames in front of its forced terminal (I13, I34).
        """
        if self.failure is not None:
            return False
        return is_terminal or not self.cancelled or self.terminal_pending

    @property
    def is_ending(self) -> bool:
        """Whether it takes no chunk of another request: aborted, failed, or its terminal is queued."""
        return self.cancelled or self.terminal_pending or self.failure is not None
