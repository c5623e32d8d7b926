"""The programs in frontrun's own form: a state, a fixed list of workers, an invariant.

frontrun controls only the workers that it is given, so a program cannot be handed over as it is. Errors
inside a worker are kept in the state and judged by the invariant.
"""

from __future__ import annotations

import pathlib
import threading
import types
from collections.abc import Callable
from typing import Any

from omni_verify.engine.control import load_function

PROGRAMS = pathlib.Path(__file__).resolve().parent.parent / "tests" / "quality" / "engine" / "programs"
Form = tuple[Callable[[], Any], list[Callable[[Any], Any]], Callable[[Any], bool]]


def _module(name: str, function: str) -> types.ModuleType:
    return load_function(f"{PROGRAMS / name}.py:{function}")[1]


def _judged(worker: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A worker whose failed assertion becomes part of the state."""

    def run(state: Any) -> None:
        try:
            worker(state)
        except AssertionError:
            state.failed = True

    return run


def _fine(state: Any) -> bool:
    return not getattr(state, "failed", False)


def counter3() -> Form:
    class Total:
        def __init__(self) -> None:
            self.n = 0
            self.lock = threading.Lock()

    def work(total: Total) -> None:
        for _ in range(3):
            with total.lock:
                total.n += 1

    return Total, [work] * 3, lambda total: total.n == 9


def lost_update() -> Form:
    m = _module("lost_update", "buggy")
    return m.Counter, [lambda c: m._add(c, None)] * 2, lambda c: c.n == 2


def lock_order() -> Form:
    def take(one: int, two: int) -> Callable[[Any], None]:
        def work(locks: Any) -> None:
            with locks[one], locks[two]:
                pass

        return work

    return lambda: [threading.Lock(), threading.Lock()], [take(0, 1), take(1, 0)], lambda _: True


def missed_signal() -> Form:
    m = _module("missed_signal", "buggy")
    return m.Box, [m.Box.wait_bad, m.Box.put], lambda _: True


def check_then_act() -> Form:
    m = _module("check_then_act", "buggy")
    return m.Registry, [lambda r: r.get_bad("k")] * 2, lambda r: len(r.created) == 1


def aba() -> Form:
    m = _module("aba", "buggy")

    def setup() -> Any:
        stack = m.Stack(False)
        for name in "cba":
            stack.push(m.Node(name))
        return stack

    def busy(stack: Any) -> None:
        first, second = stack.pop(), stack.pop()
        if first is not None and second is not None:
            second.freed = True
            stack.push(first)

    def whole(stack: Any) -> bool:
        node = stack.head
        while node is not None:
            if node.freed:
                return False
            node = node.next
        return True

    return setup, [lambda stack: stack.pop(), busy], whole


def _reorder(setters: int) -> Form:
    m = _module("reorder", f"buggy_{setters}")
    return m.Pair, [*[m._set] * setters, _judged(m._check)], _fine


def _twostage(writers: int) -> Form:
    m = _module("twostage", f"buggy_{writers}")
    return m.Data, [*[m._write] * writers, _judged(m._read)], _fine


def stack() -> Form:
    m = _module("stack", "buggy")
    return m.Stack, [m._push, _judged(m._pop_bad)], _fine


def bounded_buffer() -> Form:
    m = _module("bounded_buffer", "buggy")

    def produce(buffer: Any) -> None:
        buffer.put(1)
        buffer.put(2)

    def consume(buffer: Any) -> None:
        buffer.get()
        buffer.get()

    return lambda: m.Buffer(False), [produce, produce, consume, consume], lambda _: True


def cleanup_vs_put() -> Form:
    m = _module("cleanup_vs_put", "buggy")

    def feed(worker: Any) -> None:
        worker.puts.put(("r", 1))
        worker.cleanups.put(("r", 1))
        worker.puts.put(("r", 2))
        worker.puts.put(None)
        worker.cleanups.put(None)

    setup = lambda: m.Worker(False)  # noqa: E731 - a setup is a value here
    return setup, [feed, m.Worker.put_loop, m.Worker.cleanup_loop], lambda w: w.store.get("r") == 2


def inflight_put_vs_abort() -> Form:
    m = _module("inflight_put_vs_abort", "buggy")
    workers = [lambda s: s.put_bad("r_0"), m.Sender.abort]
    return m.Sender, workers, lambda s: not (s.segments and s.aborted)


def timed_wait() -> Form:
    m = _module("timed_wait", "buggy")
    return m.Call, [_judged(m.Call.ask_bad), m.Call.serve], _fine


def adapter_thread() -> Form:
    m = _module("adapter_thread", "buggy")

    def use(adapter: Any) -> None:
        adapter.send("chunk")
        adapter.close_bad()

    return m.Adapter, [use], lambda adapter: adapter.sent == ["chunk"]


FORMS: dict[str, Callable[[], Form]] = {
    "controls:counter3": counter3,
    "lost_update:buggy": lost_update,
    "lock_order:buggy": lock_order,
    "missed_signal:buggy": missed_signal,
    "check_then_act:buggy": check_then_act,
    "aba:buggy": aba,
    **{f"reorder:buggy_{n}": lambda n=n: _reorder(n) for n in (3, 5, 10)},
    **{f"twostage:buggy_{n}": lambda n=n: _twostage(n) for n in (2, 10)},
    "stack:buggy": stack,
    "bounded_buffer:buggy": bounded_buffer,
    "cleanup_vs_put:buggy": cleanup_vs_put,
    "inflight_put_vs_abort:buggy": inflight_put_vs_abort,
    "timed_wait:buggy": timed_wait,
    "adapter_thread:buggy": adapter_thread,
}
