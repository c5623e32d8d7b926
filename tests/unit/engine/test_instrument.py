"""Instrumentation by replaced names: points around real calls, nemeses in between, and all of it undone."""

import fcntl
import os
import types

import pytest

from omni_verify.engine.gates import ThreadRuntime
from omni_verify.engine.instrument import Patcher, Replace
from omni_verify.engine.order import PartialOrder


class Connector:
    kind = "shared"

    def __init__(self):
        self.stored = {}

    def put(self, key, value):
        if value is None:
            raise ValueError("nothing to put")
        self.stored[key] = value
        return True, len(value)

    @staticmethod
    def version():
        return 1


@pytest.fixture
def runtime():
    return ThreadRuntime(PartialOrder(), gate_s=5, wait_s=5)


def events(runtime):
    return [f"{e.point}({e.key})" for e in runtime.trace]


def key_of(args, kwargs):
    return kwargs.get("key") or args[0]


def test_a_call_is_surrounded_by_its_points(runtime):
    connector = Connector()
    Patcher(runtime).wrap(connector, "put", "put", key_of, lambda result: {"size": result[1]})
    assert connector.put("R", b"xy") == (True, 2)
    assert connector.put(key="S", value=b"") == (True, 0)
    assert events(runtime) == ["put.enter(R)", "put.exit(R)", "put.enter(S)", "put.exit(S)"]
    assert [e.detail for e in runtime.trace] == [{}, {"size": 2}, {}, {"size": 0}]
    assert connector.stored == {"R": b"xy", "S": b""}


def test_the_class_and_its_other_instances_stay(runtime):
    connector, other = Connector(), Connector()
    Patcher(runtime).wrap(connector, "put", "put", key_of)
    other.put("R", b"")
    assert type(connector) is Connector, "a proxy would switch off what asks for the class (W17)"
    assert events(runtime) == []


def test_an_exception_passes_through_and_is_in_the_trace(runtime):
    connector = Connector()
    Patcher(runtime).wrap(connector, "put", "put", key_of)
    with pytest.raises(ValueError, match="nothing to put"):
        connector.put("R", None)
    assert events(runtime) == ["put.enter(R)", "put.exit(R)"]
    assert runtime.trace.events[-1].detail == {"raised": "ValueError"}


def test_a_call_without_key_is_no_point(runtime):
    connector = Connector()
    Patcher(runtime).wrap(connector, "put", "put", lambda args, kwargs: None)
    assert connector.put("R", b"x") == (True, 1)
    assert events(runtime) == []


def test_a_moment_is_reached_before_the_call(runtime):
    connector, order = Connector(), []
    patcher = Patcher(runtime)
    connector.put = lambda: order.append(len(runtime.trace))
    patcher.moment(connector, "put", "idle.save", "producer")
    connector.put()
    assert order == [1]
    assert events(runtime) == ["idle.save(producer)"]


def test_undo_puts_everything_back_newest_first(runtime):
    connector, before = Connector(), dict(vars(Connector))
    patcher = Patcher(runtime)
    patcher.wrap(connector, "put", "put", key_of)
    patcher.wrap(connector, "put", "save", key_of)
    patcher.replace(Connector, "version", staticmethod(lambda: 2))
    patcher.replace(connector, "stored", {"other": b""})
    patcher.replace(connector, "fresh", 1)
    assert connector.version() == 2
    patcher.undo()
    patcher.undo()
    assert "put" not in vars(connector)
    assert not hasattr(connector, "fresh")
    assert connector.stored == {}
    assert dict(vars(Connector)) == before
    connector.put("R", b"")
    assert events(runtime) == []


@pytest.fixture
def module():
    made = types.ModuleType("target_module")
    made.os, made.fcntl = os, fcntl
    return made


def test_a_shim_replaces_a_name_in_one_module_only(runtime, module, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"")
    patcher = Patcher(runtime)
    patcher.shim(module, "os", {"remove": ("lock.remove", key_of)})
    assert module.os.getpid() == os.getpid()
    assert module.os.sep == os.sep
    module.os.remove(str(path))
    assert not path.exists()
    assert events(runtime) == [f"lock.remove.enter({path})", f"lock.remove.exit({path})"]
    with pytest.raises(FileNotFoundError):
        os.remove(path)
    assert len(runtime.trace) == 2, "the real module is untouched"
    patcher.undo()
    assert module.os is os


def test_two_points_share_one_function_of_a_shim(runtime, module, tmp_path):
    def when(wanted):
        return lambda args, kwargs: "L" if bool(args[1] & fcntl.LOCK_UN) is wanted else None

    patcher = Patcher(runtime)
    patcher.shim(module, "fcntl", {"flock": ("lock.flock", when(False))})
    patcher.shim(module, "fcntl", {"flock": ("lock.unlock", when(True))})
    with open(tmp_path / "lock", "w") as file:
        module.fcntl.flock(file, fcntl.LOCK_EX)
        module.fcntl.flock(file, fcntl.LOCK_UN)
    assert [p for p in events(runtime) if ".enter" in p] == ["lock.flock.enter(L)", "lock.unlock.enter(L)"]
    patcher.undo()
    assert module.fcntl is fcntl


class Interceptor:
    def __init__(self, before=None, after=None):
        self.act_before, self.act_after, self.calls = before, after, []

    def before(self, point, key, args, kwargs):
        self.calls.append(("before", point, key))
        if self.act_before:
            raise self.act_before

    def after(self, point, key, result):
        self.calls.append(("after", point, key, result))
        return self.act_after(result) if self.act_after else result


def intercepted(runtime, interceptor):
    connector = Connector()
    Patcher(runtime, interceptor).wrap(connector, "put", "put", key_of, lambda r: {"result": repr(r)})
    return connector


def test_a_nemesis_stands_in_for_the_call(runtime):
    nemesis = Interceptor(before=Replace("instead"))
    connector = intercepted(runtime, nemesis)
    assert connector.put("R", b"x") == "instead"
    assert connector.stored == {}
    assert nemesis.calls == [("before", "put", "R")]
    assert runtime.trace.events[-1].detail == {"result": "'instead'"}


def test_a_nemesis_fails_the_call_before_and_after(runtime):
    early = intercepted(runtime, Interceptor(before=OSError("no space")))
    with pytest.raises(OSError, match="no space"):
        early.put("R", b"x")
    assert early.stored == {}

    def late(result):
        raise OSError("told after it happened")

    connector = intercepted(runtime, Interceptor(after=late))
    with pytest.raises(OSError, match="told after"):
        connector.put("R", b"x")
    assert connector.stored == {"R": b"x"}
    assert [e.detail for e in runtime.trace if e.point == "put.exit"] == [{"raised": "OSError"}] * 2


def test_a_nemesis_changes_the_result_and_hears_of_no_failed_call(runtime):
    nemesis = Interceptor(after=lambda result: (False, 0))
    connector = intercepted(runtime, nemesis)
    assert connector.put("R", b"x") == (False, 0)
    with pytest.raises(ValueError):
        connector.put("S", None)
    assert nemesis.calls == [("before", "put", "R"), ("after", "put", "R", (True, 1)), ("before", "put", "S")]
