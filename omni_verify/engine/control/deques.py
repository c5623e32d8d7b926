"""Modelled deque: every operation is a point, because targets hand over through it without a lock."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from typing import Any

from omni_verify.engine.control import state
from omni_verify.engine.control.publish import publish

__all__ = ["deque"]


class deque(collections.deque[Any]):
    """Model of `collections.deque`; each step of an iteration is a point, so a mutation in between raises."""

    def __iter__(self) -> Iterator[Any]:
        if state.current is None:
            return super().__iter__()
        return self._steps(super().__iter__())

    def _steps(self, iterator: Iterator[Any]) -> Iterator[Any]:
        while True:
            publish("iter", self)
            try:
                value = next(iterator)
            except StopIteration:
                return
            yield value

    def __len__(self) -> int:
        publish("len", self)
        return super().__len__()

    def __bool__(self) -> bool:
        return len(self) > 0

    def __contains__(self, item: object) -> bool:
        publish("in", self)
        return super().__contains__(item)

    def __getitem__(self, index: Any) -> Any:
        publish("item", self)
        return super().__getitem__(index)


def _operation(name: str) -> Callable[..., Any]:
    original = getattr(collections.deque, name)

    def operation(self: deque, *args: Any, **kwargs: Any) -> Any:
        publish(name, self)
        return original(self, *args, **kwargs)

    operation.__name__ = name
    operation.__doc__ = original.__doc__
    return operation


for _name in (
    *("append", "appendleft", "clear", "extend", "extendleft", "insert", "pop", "popleft", "remove"),
    *("reverse", "rotate", "__setitem__", "__delitem__", "__iadd__"),
):
    setattr(deque, _name, _operation(_name))
