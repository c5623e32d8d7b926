"""The controlled scheduler: one task at a time, virtual time, exact deadlocks, tapes of choices.

`instrument` replaces names in a target's modules by the models of this room, `Scheduler.run` executes a
program under a strategy, `ControlledRuntime` gives a scenario its actors.
"""

from omni_verify.engine.control.failure import Failure, Mistake, ScheduleAbort
from omni_verify.engine.control.instrument import instrument, load_function, load_modules
from omni_verify.engine.control.run import Run, Step
from omni_verify.engine.control.runtime import ControlledRuntime
from omni_verify.engine.control.scheduler import GRANULARITIES, Scheduler

__all__ = [
    "GRANULARITIES",
    "ControlledRuntime",
    "Failure",
    "Mistake",
    "Run",
    "ScheduleAbort",
    "Scheduler",
    "Step",
    "instrument",
    "load_function",
    "load_modules",
]
