"""What happened: events at named points, in one total order per run."""

from omni_verify.trace.event import Event, Trace

__all__ = ["Event", "Trace"]
