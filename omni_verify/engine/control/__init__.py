"""The controlled scheduler: one task at a time, virtual time, exact deadlocks, tapes of choices."""

from omni_verify.engine.control.failure import Failure, Mistake, ScheduleAbort
from omni_verify.engine.control.run import Run, Step
from omni_verify.engine.control.scheduler import GRANULARITIES, Scheduler

__all__ = ["GRANULARITIES", "Failure", "Mistake", "Run", "ScheduleAbort", "Scheduler", "Step"]
