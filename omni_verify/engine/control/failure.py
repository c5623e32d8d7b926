"""What can go wrong in an execution, and what makes two failures the same one."""

from __future__ import annotations

import functools
import linecache
import re
import traceback
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Abandon", "Blocked", "Failure", "Mistake", "ScheduleAbort", "from_exception"]

_NUMBER = re.compile(r"0x[0-9a-f]+|\d+")


class ScheduleAbort(BaseException):
    """Unwinds a task whose execution is over. A BaseException, so that ``except Exception`` lets it pass."""


class Abandon(ScheduleAbort):
    """Raised by a strategy's ``pick``: the rest of this execution is known to add nothing."""


class Blocked(Abandon):
    """Raised in a task that made no progress for the allowed real time."""


class Mistake(RuntimeError):
    """The program did something that cannot be controlled, such as a real lock in a modelled condition."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure of the program under one schedule.

    Attributes:
        kind: ``exception``, ``deadlock``, ``lost-wakeup``, ``leaked-thread`` or ``livelock``.
        identity: what de-duplication and minimisation compare; free of numbers, addresses and schedules.
        message: one line for people.
        task: name of the task that failed, or of the first blocked one.
        waits: the wait-for graph, several lines; empty when there was an exception.
        exception: the exception itself, when there was one.
    """

    kind: str
    identity: str
    message: str
    task: str
    waits: str = ""
    exception: BaseException | None = field(default=None, compare=False, repr=False)

    @property
    def detail(self) -> str:
        """Traceback or wait-for graph, several lines."""
        if self.exception is None:
            return self.waits
        # Formatting reads source files, and a search only needs the identity.
        return "".join(traceback.format_exception(self.exception))


def from_exception(exc: BaseException, task: str) -> Failure:
    """Describe an exception that ended a task.

    An ``identity`` attribute on the exception (a contract violation carries one) decides sameness;
    otherwise class and message with every number replaced, or the raising line when there is no message.
    """
    name, text = type(exc).__name__, str(exc)
    identity: Any = getattr(exc, "identity", None)
    if identity is None:
        identity = f"{name}: {_numberless(text or _raising_line(exc))}"
    return Failure("exception", str(identity), f"{name}: {text}" if text else name, task, exception=exc)


# A search for all failures meets the same few messages again and again.
@functools.lru_cache(maxsize=256)
def _numberless(text: str) -> str:
    """The first line of ``text`` with every number replaced."""
    return _NUMBER.sub("#", text.splitlines()[0]) if text else ""


def _raising_line(exc: BaseException) -> str:
    at = exc.__traceback__
    if at is None:
        return ""
    while at.tb_next is not None:
        at = at.tb_next
    code = at.tb_frame.f_code
    return (
        f"{code.co_name}: {linecache.getline(code.co_filename, at.tb_lineno, at.tb_frame.f_globals).strip()}"
    )
