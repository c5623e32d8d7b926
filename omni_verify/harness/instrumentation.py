"""Put the points of a target under a script's runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from omni_verify.targets import points

if TYPE_CHECKING:
    from omni_verify.harness.script import Script
    from omni_verify.harness.stage import Stage

__all__ = ["instrument_adapter", "instrument_connector", "instrument_modules"]


_COARSE = frozenset(
    {
        "put",
        "get",
        "save",
        "send",
        "abort",
        "release",
        "reap",
        "close",
        "shutdown",
        "cleanup_sender",
        "cleanup_all",
    }
)


def instrument_modules(script: Script) -> None:
    """Instrument the target's modules: segments, lock files."""
    if not script.coarse:
        points.install(script.patcher, points.module_points(script.target))


def instrument_connector(script: Script, connector: Any) -> None:
    """Instrument one connector object."""
    _install(script, points.connector_points(script.target, connector))


def _install(script: Script, sites: Sequence[points.Site]) -> None:
    points.install(script.patcher, [s for s in sites if not script.coarse or s.point in _COARSE])


def instrument_adapter(script: Script, stage: Stage) -> None:
    """Instrument a stage's adapter and its connector, and name its threads ``<stage>.save`` and ``.recv``.

    The idle moments carry the stage's name as key, so that a drained save queue can be told per stage.
    """
    script.runtime.name_thread(stage.adapter.save_thread, f"{stage.name}.save")
    script.runtime.name_thread(stage.adapter.recv_thread, f"{stage.name}.recv")
    instrument_connector(script, stage.connector)
    sites: Sequence[points.Site] = points.adapter_points(script.target, stage.adapter)
    for site in sites:
        if site.kind == "moment":
            script.patcher.moment(site.owner, site.path, site.point, stage.name)
    _install(script, [site for site in sites if site.kind != "moment"])
