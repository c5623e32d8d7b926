"""Connectors by name."""

from types import SimpleNamespace

import pytest

from omni_verify.errors import UsageError
from omni_verify.pipeline.factory import OmniConnectorFactory
from omni_verify.pipeline.shm_connector import SharedMemoryConnector


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    monkeypatch.setattr(OmniConnectorFactory, "_registry", dict(OmniConnectorFactory._registry))


@pytest.mark.parametrize("make", [dict, SimpleNamespace])
def test_spec_is_an_object_or_a_mapping(make):
    created = OmniConnectorFactory.create_connector(make(name="SharedMemoryConnector", extra={"stage_id": 3}))
    assert isinstance(created, SharedMemoryConnector)
    assert created.stage_id == 3


def test_registered_constructor_gets_extra():
    OmniConnectorFactory.register_connector(
        "Mine", lambda extra: SharedMemoryConnector({**extra, "stage_id": 9})
    )
    assert OmniConnectorFactory.create_connector({"name": "Mine"}).stage_id == 9
    assert OmniConnectorFactory.list_registered_connectors() == ["SharedMemoryConnector", "Mine"]
    with pytest.raises(UsageError, match="already registered"):
        OmniConnectorFactory.register_connector("Mine", SharedMemoryConnector)


def test_unknown_name_suggests_the_nearest():
    with pytest.raises(UsageError, match="Did you mean 'SharedMemoryConnector'"):
        OmniConnectorFactory.create_connector({"name": "SharedMemConnector"})


def test_refused_configuration_is_reported():
    with pytest.raises(UsageError, match="'SharedMemoryConnector' refused its configuration"):
        OmniConnectorFactory.create_connector(
            {"name": "SharedMemoryConnector", "extra": {"lock_timeout_s": "soon"}}
        )
