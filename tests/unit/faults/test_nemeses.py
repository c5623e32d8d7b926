"""Nemeses by name: the registry, and when a roaming one strikes."""

import pkgutil

import pytest

from omni_verify.contracts.keys import lock_path, segment_path
from omni_verify.engine.instrument import Replace
from omni_verify.engine.points import OPERATIONS
from omni_verify.errors import UsageError
from omni_verify.faults import nemeses as package
from omni_verify.faults.nemeses import Blow, Harm, NemesisSpec, Roaming, Strike, choose, nemeses
from omni_verify.faults.nemesis import Injected
from omni_verify.targets.protocol import Capabilities

ROAMING = [s for s in nemeses().values() if not s.processes]


def test_every_module_of_the_folder_is_registered_under_its_name():
    modules = {m.name.replace("_", "-") for m in pkgutil.iter_modules(package.__path__)}
    assert modules - {"registry", "roaming", "spec"} == set(nemeses())


@pytest.mark.parametrize("spec", nemeses().values(), ids=lambda s: s.name)
def test_it_says_what_goes_wrong_and_where_that_was_seen(spec):
    assert len(spec.story) > 20
    assert spec.source
    if not spec.processes:
        assert (spec.point in OPERATIONS and spec.strike) or spec.attach
    assert not spec.needs or spec.needs in Capabilities.__struct_fields__


def test_choose_knows_all_none_names_and_what_the_target_lacks():
    assert [s.name for s in choose(["all"])] == [s.name for s in ROAMING]
    assert choose(["none"]) == choose([]) == []
    assert [s.name for s in choose(["put-false"])] == ["put-false"]
    assert choose(["reap-raises"], Capabilities(reap=False)) == []
    assert choose(["reap-raises"], Capabilities(reap=True))


@pytest.mark.parametrize("name", ["put-flase", "sigkill"])
def test_choose_refuses_what_cannot_roam(name):
    with pytest.raises(UsageError):
        choose([name])


class Field:
    """One roaming nemesis with a scripted strategy."""

    def __init__(self, *specs, choices=(), strikes=2, prefix=""):
        self.choices, self.asked, self.events = list(choices), [], []
        self.roaming = Roaming(
            specs,
            self.choose if choices != "threads" else None,
            lambda point, key, **detail: self.events.append((point, key, detail)),
            prefix=prefix,
            strikes=strikes,
        )

    def choose(self, n, what):
        self.asked.append(what)
        return self.choices.pop(0) if self.choices else 0

    def call(self, point="put", key="R_1_0", result="real"):
        try:
            self.roaming.before(point, key, (), {})
        except Replace as instead:
            return instead.value
        except (Injected, OSError) as error:
            return type(error).__name__
        try:
            return self.roaming.after(point, key, result)
        except (Injected, OSError) as error:
            return f"late {type(error).__name__}"


def spec(name):
    return nemeses()[name]


def test_it_strikes_where_the_strategy_chooses_to():
    field = Field(spec("put-raises"), choices=[0, 2, 1])
    assert [field.call() for _ in range(4)] == ["real", "real", "Injected", "real"]
    assert field.asked == ["nemesis put-raises"] * 3  # after its one strike it is not asked any more
    assert field.events == [("fault", "R_1_0", {"what": "put-raises"})]


def test_on_real_threads_it_strikes_at_its_first_chances():
    field = Field(spec("put-false"), choices="threads")
    assert [field.call()[0] for _ in range(2)] == [False, False]
    assert field.call() == "real"


def test_a_late_strike_lets_the_real_call_happen_first():
    assert Field(spec("put-raises-late"), choices=[1]).call() == "late Injected"
    assert Field(spec("put-false-late"), choices=[1]).call() == (False, 0, None)


def test_all_nemeses_together_have_a_budget():
    field = Field(spec("put-raises"), spec("processor-raises"), choices=[1] * 9, strikes=1)
    assert field.call("proc", "R") == "Injected"
    assert field.call() == "real"


def test_a_nemesis_inside_an_operation_stays_inside_it():
    field = Field(spec("no-inode"), choices=[1])
    assert field.call("lock.open") == "real"
    field.roaming.before("put", "R_1_0", (), {})
    assert field.call("lock.open") == "OSError"
    field.roaming.after("put", "R_1_0", None)
    assert not field.roaming._inside[next(iter(field.roaming._inside))]


def test_a_struck_operation_is_left_again():
    field = Field(spec("put-raises"), spec("no-inode"), choices=[1])
    assert field.call() == "Injected"
    assert field.call("lock.open") == "real"


def test_nothing_is_asked_where_there_is_nothing_to_strike_at(ovt_key):
    field = Field(spec("get-corrupt"), choices=[1])
    assert field.call("get", ovt_key) == "real"
    assert not field.asked


@pytest.fixture
def ovt_key():
    import os
    import secrets

    key = f"ovt{secrets.token_hex(6)}_1_0"
    yield key
    for path in (segment_path(key), lock_path(key)):
        if os.path.exists(path):
            os.unlink(path)


def written(key, data):
    with open(segment_path(key), "wb") as file:
        file.write(data)
    open(lock_path(key), "wb").close()


def read(path):
    with open(path, "rb") as file:
        return file.read()


def test_corrupt_and_truncated_bytes(ovt_key):
    written(ovt_key, b"abcd")
    assert Field(spec("get-corrupt"), choices=[1]).call("get", ovt_key) == "real"
    assert read(segment_path(ovt_key)) == b"\xc1" * 4
    assert Field(spec("get-truncated"), choices=[1]).call("get", ovt_key) == "real"
    assert read(segment_path(ovt_key)) == b"\xc1" * 2


def test_foreign_programs_remove_files(ovt_key):
    import os

    written(ovt_key, b"abcd")
    assert Field(spec("foreign-lock"), choices=[1]).call("put", ovt_key) == "real"
    assert not os.path.exists(lock_path(ovt_key))
    assert Field(spec("foreign-segment"), choices=[1]).call("put", ovt_key) == "real"
    assert not os.path.exists(segment_path(ovt_key))


def test_the_prefix_of_the_run_is_not_part_of_the_key():
    field = Field(spec("put-raises"), choices=[1], prefix="p-")
    field.call("put", "p-R_1_0")
    assert field.roaming.struck == [Strike(nemesis="put-raises", key="R_1_0", harm=Harm.STREAM)]


@pytest.mark.parametrize(
    ("key", "label", "hit"),
    [
        ("R_1_0", "R", True),
        ("R_1_0", "R_1", False),
        ("R_1_1_0", "R_1", True),
        ("R", "R", True),
        ("", "R", True),
    ],
)
def test_a_strike_concerns_the_stream_of_its_key(key, label, hit):
    assert Strike(nemesis="x", key=key, harm=Harm.STREAM).concerns(label) is hit


def test_hints_are_attached_to_the_connector():
    class Connector:
        def wait_for_change(self, generation, *, timeout):
            return False

    connector = Connector()
    field = Field(spec("hint-twice"), choices=[1])
    field.roaming.attach(connector, setattr)
    assert connector.wait_for_change(1, timeout=0.0) is True
    assert connector.wait_for_change(1, timeout=0.0) is False


def test_the_wall_clock_is_back_where_it_was_in_the_next_run():
    from omni_verify.engine.control import clock

    before = clock.EPOCH
    Field(spec("clock-jumps"), choices=[1]).call("save", "R")
    assert before + 3600 == clock.EPOCH
    Field(spec("clock-jumps"))
    assert before == clock.EPOCH


def test_a_strike_may_stand_in_for_the_call():
    made = NemesisSpec(name="n", story="s", source="s", point="get", strike=lambda blow: None)
    assert Field(made, choices=[1]).call("get") is None
    assert Blow(key="k", full_key="k", args=(), kwargs={}).segment == segment_path("k")
