"""Points are found by what code uses, keys come from arguments, and nothing missing looks available."""

import builtins
import fcntl
import os
import sys
import types
import uuid
from types import SimpleNamespace

import pytest

from omni_verify.engine.instrument import Patcher
from omni_verify.targets import point_keys as keys
from omni_verify.targets.name_use import names_used
from omni_verify.targets.points import (
    ADAPTER_OPERATIONS,
    CONNECTOR_OPERATIONS,
    MODULE_OPERATIONS,
    adapter_points,
    connector_points,
    install,
    missing_operations,
    module_points,
)
from omni_verify.trace.event import Trace

SOURCE = """
import fcntl
import os
import shutil

def shm_write_bytes(payload, name=None):
    return {}

class Connector:
    def put(self, path):
        with open(path, "wb+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            fcntl.flock(file, fcntl.LOCK_UN)
        os.remove(path)

    def other(self, path):
        open(path).close()

    @property
    def nested(self):
        return [lambda: os.listdir(p) for p in ()]
"""


class Recorder:
    """A runtime that only records."""

    def __init__(self):
        self.trace = Trace()

    def reach(self, point, key="", **detail):
        self.trace.append("test", point, key, detail)

    @property
    def told(self):
        return [(e.point, e.key) for e in self.trace]


def make_module(name="made_up_connector"):
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(compile(SOURCE, name, "exec"), vars(module))
    return module


@pytest.fixture
def module():
    yield make_module()
    del sys.modules["made_up_connector"]


def target_of(**roles):
    return SimpleNamespace(modules=lambda: roles)


def test_names_are_read_from_code_not_from_imports(module):
    used = names_used(module)
    assert {"open", "fcntl.flock", "os.remove", "os.listdir"} <= used
    assert not any(name.startswith("shutil") for name in used)
    assert "os.open" not in used
    assert "os.write" not in used


def test_module_points_bind_what_is_used_and_the_rest_is_missing(module):
    sites = module_points(target_of(connector=(module,)))
    assert {(s.path, s.point, s.kind) for s in sites} == {
        ("open", "lock.open", "builtin"),
        ("fcntl.flock", "lock.flock", "shim"),
        ("fcntl.flock", "lock.unlock", "shim"),
        ("os.remove", "lock.remove", "shim"),
    }
    missing = missing_operations(sites, MODULE_OPERATIONS)
    assert {"seg.create", "seg.write", "seg.read", "seg.unlink"} <= set(missing)
    assert "lock.open" not in missing


def test_a_lock_file_gives_its_points_in_order_and_other_files_none(module, tmp_path):
    recorder = Recorder()
    patcher = Patcher(recorder)
    install(patcher, module_points(target_of(connector=(module,))))
    key = f"ov-points-{uuid.uuid4().hex}_1_0"
    module.Connector().put(f"/dev/shm/shm_{key}_lockfile.lock")
    (tmp_path / "x").write_text("")
    module.Connector().other(str(tmp_path / "x"))
    points = ["lock.open", "lock.flock", "lock.unlock", "lock.remove"]
    assert recorder.told == [(f"{p}.{side}", key) for p in points for side in ("enter", "exit")]
    patcher.undo()
    assert module.os is os
    assert module.fcntl is fcntl
    assert "open" not in vars(module)


class Connector:
    stage_id = 1

    def put(self, from_stage, to_stage, put_key, data):
        return True, 3, {}

    def get(self, from_stage, to_stage, get_key, metadata=None):
        return None

    def cleanup(self, request_id):
        return True

    def close(self):
        return None


def test_connector_points_carry_keys_and_results():
    connector, recorder = Connector(), Recorder()
    sites = connector_points(None, connector)
    assert set(missing_operations(sites, CONNECTOR_OPERATIONS)) == {"cleanup_prefix", "reap", "ser", "deser"}
    patcher = Patcher(recorder)
    install(patcher, sites)
    connector.put(from_stage="1", to_stage="2", put_key="R_1_0", data=b"")
    connector.get("1", "2", "R_1_0", None)
    connector.cleanup("R_1_0")
    connector.close()
    assert type(connector) is Connector  # no proxy: its class is what vllm-omni tests (W17)
    exits = {e.point: (e.key, e.detail) for e in recorder.trace if e.point.endswith("exit")}
    assert exits["put.exit"] == ("R_1_0", {"ok": True, "size": 3})
    assert exits["get.exit"] == ("R_1_0", {"found": False})
    assert exits["cleanup.exit"] == ("R_1_0", {})
    patcher.undo()
    assert vars(connector) == {}


class Condition:
    def wait(self, timeout=None):
        return True


class Adapter:
    def __init__(self):
        self.connector = Connector()
        self.request_ids_mapping = {"int-R": "R"}
        self.put_req_chunk = {"R": 2}
        self.get_req_chunk = {"int-R": 5}
        self._save_cond = Condition()

    def save_async(self, output=None, request=None): ...
    def load_async(self, request): ...
    def finish_requests(self, request_ids, status, requests=None): ...
    def cleanup(self, request_id, external_req_id=None): ...
    def cleanup_receiver(self, request_id): ...
    def cleanup_sender(self, external_req_id): ...
    def _send_single_request(self, task): ...
    def _poll_single_request(self, entry): ...
    def shutdown(self): ...


def test_adapter_points_use_external_ids_and_transfer_keys():
    adapter, recorder = Adapter(), Recorder()
    sites = adapter_points(None, adapter)
    assert set(missing_operations(sites, ADAPTER_OPERATIONS)) == {"release", "commit", "proc", "idle.recv"}
    install(Patcher(recorder), sites)
    request = SimpleNamespace(request_id="int-R", external_req_id="R")
    adapter.save_async([1], request)
    adapter.load_async(request=request)
    adapter.finish_requests({"int-R", "x"}, None, None)
    adapter.finish_requests(None, None, {"int-R": request})
    adapter.cleanup("int-R")
    adapter.cleanup("int-R", "E")
    adapter.cleanup_receiver("int-R")
    adapter.cleanup_sender("R")
    adapter._send_single_request({"request": request})
    adapter._send_single_request({"cleanup_shm": ("R_1", 3)})
    adapter._send_single_request({"release_shm": "R_1_"})
    adapter._send_single_request({"batch": [{"request": request}, {"request": request}]})
    adapter._poll_single_request(request)
    adapter._save_cond.wait(0.1)
    adapter.shutdown()
    told = [(p.removesuffix(".enter"), k) for p, k in recorder.told if not p.endswith("exit")]
    assert told == [
        ("save", "R"),
        ("load", "R"),
        ("abort", "R,x"),
        ("abort", "R"),
        ("cleanup_all", "R"),
        ("cleanup_all", "E"),
        ("cleanup_receiver", "R"),
        ("cleanup_sender", "R"),
        ("send", "R_1_2"),
        ("send", "R_1"),
        ("send", "R_1_"),
        ("send", "R_1_2,R_1_2"),
        ("poll", "R_0_5"),
        ("idle.save", ""),
        ("shutdown", ""),
    ]


def test_segment_keys():
    name = f"ov-points-{uuid.uuid4().hex}_1_0"
    path = f"/dev/shm/{name}"
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        assert keys.segment_of_descriptor((descriptor, 8), {}) == name
        os.unlink(path)
        assert keys.segment_of_descriptor((descriptor, 8), {}) == name
    finally:
        os.close(descriptor)
    assert keys.segment_of_descriptor((descriptor, 8), {}) is None
    create, attach = keys.segment_of_shm_open(creates=True), keys.segment_of_shm_open(creates=False)
    assert create(("/k", os.O_CREAT | os.O_RDWR), {"mode": 0o600}) == "k"
    assert attach(("/k", os.O_CREAT | os.O_RDWR), {}) is None
    assert attach(("/k",), {"read_only": True}) == "k"
    assert keys.segment_name(("/k",), {}) == "k"
    assert keys.segment_of_read(({"name": "k", "size": 1},), {}) == "k"
    assert builtins.open is open


def test_the_real_reference_offers_every_operation_but_sizing():
    from omni_verify.targets import resolve

    target = resolve("reference")
    target.load()
    # It fills by write(): a segment has no moment between sizing and filling (W1).
    assert missing_operations(module_points(target), MODULE_OPERATIONS) == ("seg.size",)
