"""The state walk finds every container by itself and tells similar ids apart."""

from collections import OrderedDict, defaultdict, deque
from types import SimpleNamespace

from omni_verify.audit.state import StateEntry, container_sizes, find_entries


class Entry:
    __slots__ = ("request",)

    def __init__(self, request):
        self.request = request

    @property
    def request_id(self):
        return self.request.request_id


class Helper:
    __slots__ = ("parked",)

    def __init__(self):
        self.parked = deque()


class Connector:
    def __init__(self):
        self._pending_keys = OrderedDict()


class Adapter:
    def __init__(self):
        self.connector = Connector()
        self.helper = Helper()
        self.put_req_chunk = defaultdict(int)
        self.registered = {}
        self.ready = set()
        self.tasks = deque()
        self.limit = 3


def request(name):
    return SimpleNamespace(request_id=f"int-{name}", external_req_id=name)


def roots(adapter):
    return {"adapter": adapter, "connector": adapter.connector}


def test_an_idle_adapter_has_no_entries():
    assert find_entries(roots(Adapter()), ["R", "int-R"]) == []


def test_every_kind_of_container_is_searched():
    adapter = Adapter()
    adapter.put_req_chunk["R"] = 2
    adapter.registered["int-R"] = Entry(request("R"))
    adapter.ready.add("int-R")
    adapter.tasks.append({"request": request("R"), "is_finished": True})
    adapter.tasks.append({"cleanup_shm": ("R_1", 4)})
    adapter.tasks.append({"release_shm": "R_1_"})
    adapter.helper.parked.append(request("R"))
    adapter.connector._pending_keys["R_1_0"] = None
    containers = {e.container for e in find_entries(roots(adapter), ["R", "int-R"])}
    assert containers == {
        "adapter.put_req_chunk",
        "adapter.registered",
        "adapter.ready",
        "adapter.tasks",
        "adapter.helper.parked",
        "connector._pending_keys",
    }


def test_a_container_that_appears_later_is_found_without_being_listed():
    adapter = Adapter()
    adapter.brand_new = {"R": object()}
    assert find_entries(roots(adapter), ["R"]) == [StateEntry("adapter.brand_new", "R", "R")]


def test_a_similar_id_is_not_taken_for_a_key_of_the_shorter_one():
    adapter = Adapter()
    adapter.put_req_chunk["task_1_2"] = 1
    adapter.connector._pending_keys["task_1_2_1_0"] = None
    assert find_entries(roots(adapter), ["task"], known=["task_1_2"]) == []
    assert len(find_entries(roots(adapter), ["task_1_2"], known=["task"])) == 2


def test_sizes_name_every_container_once():
    adapter = Adapter()
    adapter.connector._pending_keys["x_1_0"] = None
    sizes = container_sizes(roots(adapter))
    assert sizes["connector._pending_keys"] == 1
    assert sizes["adapter.helper.parked"] == 0
    assert "adapter.connector._pending_keys" not in sizes


def test_a_container_that_changes_while_it_is_read_is_read_again():
    class Shaky(set):
        failures = 2

        def __iter__(self):
            if Shaky.failures:
                Shaky.failures -= 1
                raise RuntimeError("Set changed size during iteration")
            return super().__iter__()

    adapter = Adapter()
    adapter.ready = Shaky({"R"})
    assert [e.container for e in find_entries(roots(adapter), ["R"])] == ["adapter.ready"]
