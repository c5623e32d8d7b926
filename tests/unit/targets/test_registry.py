"""Names of targets: every form resolves, every mistake is one message with the nearest name."""

from importlib.metadata import EntryPoint

import pytest

from omni_verify.errors import TargetUnusableError, UsageError
from omni_verify.targets import registry
from omni_verify.targets.protocol import Target
from omni_verify.targets.reference import ReferenceTarget
from omni_verify.targets.vllm_omni.target import VllmOmniTarget


@pytest.fixture(autouse=True)
def own_variants(monkeypatch):
    monkeypatch.setattr(registry, "_VARIANTS", {})


def plugins(monkeypatch, *points):
    monkeypatch.setattr(registry, "entry_points", lambda group: list(points))


def point(name, value):
    return EntryPoint(name, value, registry.ENTRY_POINT_GROUP)


@pytest.mark.parametrize("spec", ["reference", "vllm-omni", "vllm-omni==0.30.0", "vllm-omni@/tmp/a==b@c"])
def test_built_in_forms_resolve_to_targets(spec):
    target = registry.resolve(spec)
    assert isinstance(target, Target)
    assert target.spec == spec


def test_a_path_may_contain_both_separators():
    target = registry.resolve("vllm-omni@/tmp/a==b@c")
    with pytest.raises(TargetUnusableError, match="/tmp/a==b@c does not exist"):
        target.prepare()


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("vllm-omi", "Did you mean 'vllm-omni'"),
        ("referense", "Did you mean 'reference'"),
        ("vllm-omni==", "ends too early"),
        ("vllm-omni@", "ends too early"),
        ("vllm-omni==newest", "is not a version"),
        ("vllm-omni==0.30.*", "is not a version"),
        ("reference==1", "no versions"),
        ("other@x", "unknown target"),
        ("", "unknown target"),
    ],
)
def test_mistakes_are_usage_errors(spec, told):
    with pytest.raises(UsageError, match=told.replace(".", r"\.").replace("*", r"\*")):
        registry.resolve(spec)


def test_an_unknown_loader_and_a_loader_for_the_reference_are_refused():
    with pytest.raises(UsageError, match="Did you mean 'isolated'"):
        registry.resolve("vllm-omni", loader="isolate")
    with pytest.raises(UsageError, match="vllm-omni only"):
        registry.resolve("reference", loader="native")


def test_a_variant_is_applied_to_the_loaded_reference():
    seen = []
    registry.register_variant("M33", seen.append)
    target = registry.resolve("reference@M33")
    assert seen == []
    target.load()
    assert seen == [target]
    assert target.info.name == "reference@M33"


def test_an_unknown_variant_names_the_nearest():
    registry.register_variant("M33", print)
    with pytest.raises(UsageError, match="Did you mean 'M33'"):
        registry.resolve("reference@M32")
    with pytest.raises(UsageError, match="twice"):
        registry.register_variant("M33", repr)


def test_a_plugin_may_be_a_class_or_an_object(monkeypatch):
    value = "omni_verify.targets.reference:ReferenceTarget"
    plugins(monkeypatch, point("plugged", value))
    assert isinstance(registry.resolve("plugged"), ReferenceTarget)
    assert "plugged" in registry.names()


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("no_such_module_of_ours:Target", "failed to load: ModuleNotFoundError"),
        ("omni_verify.errors:Nothing", "failed to load: AttributeError"),
        ("omni_verify.errors:OmniVerifyError", "is not a Target: it lacks"),
    ],
)
def test_a_broken_plugin_is_named_and_harms_nothing_else(monkeypatch, value, told):
    plugins(monkeypatch, point("broken", value))
    with pytest.raises(TargetUnusableError, match=f"'broken'.*{told}"):
        registry.resolve("broken")
    assert isinstance(registry.resolve("vllm-omni==0.30.0"), VllmOmniTarget)
