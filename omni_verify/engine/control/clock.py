"""Modelled time: it stands still while anybody can run, and jumps to the next timer when nobody can."""

from __future__ import annotations

from omni_verify.engine.control import state
from omni_verify.engine.control.publish import end_timed, publish, publish_timed

__all__ = ["EPOCH", "monotonic", "monotonic_ns", "perf_counter", "sleep", "time", "time_ns"]

# Wall-clock second at virtual time 0; any fixed value does.
EPOCH = 1_700_000_000.0
# Every reading moves the clock, so that a loop which only polls a deadline gets there in the end.
_TICK = 1e-6


def monotonic() -> float:
    """Virtual seconds since the start of the execution."""
    t = state.current
    if t is None:
        return 0.0
    s = t.sched
    s.now += _TICK
    now: float = s.now
    return now


def time() -> float:
    """Virtual wall-clock seconds."""
    return EPOCH + monotonic()


perf_counter = monotonic


def monotonic_ns() -> int:
    """Virtual nanoseconds since the start of the execution."""
    return int(monotonic() * 1e9)


def time_ns() -> int:
    """Virtual wall-clock nanoseconds."""
    return int(time() * 1e9)


def sleep(seconds: float) -> None:
    """Wait ``seconds`` of virtual time; 0 only lets the others run."""
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    t = state.current
    if t is None:
        return
    if seconds == 0:
        publish("yield", None)
        return
    publish_timed(t, "sleep", None, seconds)
    t.sched.block(t)
    end_timed(t)
