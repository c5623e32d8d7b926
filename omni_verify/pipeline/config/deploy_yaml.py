"""Reads a deploy file: ``base_config`` overlay, per-stage merge, platform overlay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from omni_verify.errors import unknown_value
from omni_verify.pipeline.config.deploy import DeployConfig, StageDeployConfig
from omni_verify.pipeline.config.errors import ConfigError

__all__ = ["apply_platform", "load_deploy_config", "merge_raw", "parse_deploy", "shipped_deploy_path"]

RUNTIME_KEYS = ("devices", "num_replicas", "env")


def shipped_deploy_path(name: str) -> Path:
    """Return the path of a deploy file of this package, for example ``"qwen3_omni_moe.yaml"``."""
    folder = Path(str(resources.files("omni_verify.pipeline").joinpath("deploy")))
    if not (folder / name).is_file():
        raise unknown_value("deploy file", name, (path.name for path in folder.glob("*.yaml")))
    return folder / name


def load_deploy_config(path: str | Path) -> DeployConfig:
    """Read a deploy file and the ``base_config`` it may name (relative to the file).

    Raises:
        ConfigError: unreadable file, no mapping, the removed ``stage_args`` schema, a stage entry
            without ``stage_id``, or a cycle of base files.
    """
    return parse_deploy(read_raw(Path(path), seen=()), where=str(path))


def read_raw(path: Path, seen: tuple[Path, ...]) -> dict[str, Any]:
    """Read one file and lay it over its base."""
    path = path.resolve()
    if path in seen:
        raise ConfigError(
            f"base_config cycle: {' -> '.join(map(str, (*seen, path)))}. Remove one base_config."
        )
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"cannot read deploy file {path}: {error}") from error
    if not isinstance(raw, dict):
        raise ConfigError(f"deploy file {path} must be a mapping, got {type(raw).__name__}.")
    base = raw.pop("base_config", None)
    return merge_raw(read_raw(path.parent / base, (*seen, path)), raw) if base else raw


def merge_raw(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """Lay ``overlay`` over ``base``: scalars replace, connectors merge deeply, stages merge by id."""
    merged = {**base, **overlay}
    if base.get("connectors") and overlay.get("connectors"):
        merged["connectors"] = merge_deep(base["connectors"], overlay["connectors"])
    merged["stages"] = merge_stages(base.get("stages"), overlay.get("stages"))
    platforms: dict[str, Any] = dict(base.get("platforms") or {})
    for name, section in (overlay.get("platforms") or {}).items():
        below = platforms.get(name) or {}
        stages = merge_stages(below.get("stages"), section.get("stages"))
        platforms[name] = {**below, **section, "stages": stages}
    merged["platforms"] = platforms or None
    return merged


def merge_deep(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two mappings key by key, mappings inside them too."""
    merged = dict(base)
    for key, value in overlay.items():
        below = merged.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        merged[key] = merge_deep(below, value) if both else value  # type: ignore[arg-type]
    return merged


def merge_stages(base: Any, overlay: Any) -> list[dict[str, Any]]:
    """Merge two ``stages`` lists by ``stage_id``."""
    by_id: dict[Any, dict[str, Any]] = {}
    for entries in (base or [], overlay or []):
        fresh: set[Any] = set()
        for entry in entries:
            stage_id = entry_id(entry)
            if stage_id in fresh:
                raise ConfigError(
                    f"stage {stage_id} has two deploy entries in one list. Merge them into one."
                )
            fresh.add(stage_id)
            by_id[stage_id] = merge_deep(by_id.get(stage_id, {}), entry)
    return list(by_id.values())


def entry_id(entry: Any) -> int:
    """Return the ``stage_id`` of a stage entry."""
    stage_id = entry.get("stage_id") if isinstance(entry, Mapping) else None
    if not isinstance(stage_id, int) or isinstance(stage_id, bool):
        raise ConfigError(f"every entry of stages needs an integer stage_id, got {entry!r}.")
    return stage_id


def parse_deploy(raw: Mapping[str, Any], *, where: str = "deploy config") -> DeployConfig:
    """Build the deployment from a merged mapping; unknown top-level keys are refused by name."""
    if "stage_args" in raw:
        raise ConfigError(
            f"{where} uses the removed stage_args schema. Declare the topology in a PipelineConfig and the "
            "deployment of each stage under stages."
        )
    known = {item.name for item in fields(DeployConfig)}
    for key in raw:
        if key not in known:
            raise ConfigError(str(unknown_value(f"key of {where}", key, known)))
    stages = tuple(parse_stage(entry) for entry in merge_stages(None, raw.get("stages")))
    edges = tuple(raw["edges"]) if raw.get("edges") else None
    return DeployConfig(**{**raw, "stages": stages, "edges": edges})


def parse_stage(entry: Mapping[str, Any]) -> StageDeployConfig:
    """Build one stage's deployment: ``engine_args`` over flat keys, ``runtime`` over both."""
    flat = {
        key: value for key, value in entry.items() if key not in ("engine_args", "runtime", "engine_extras")
    }
    flat = merge_deep(flat, entry.get("engine_args") or {})
    flat.update({key: value for key, value in (entry.get("runtime") or {}).items() if key in RUNTIME_KEYS})
    known = StageDeployConfig.field_names()
    own = {key: value for key, value in flat.items() if key in known}
    extras = {key: value for key, value in flat.items() if key not in known}
    return StageDeployConfig(**own, engine_extras=merge_deep(entry.get("engine_extras") or {}, extras))


def apply_platform(deploy: DeployConfig, platform: str | None) -> DeployConfig:
    """Lay the section of ``platform`` over the stages; entries of unknown stages are ignored."""
    section = (deploy.platforms or {}).get(platform or "") or {}
    changed = {entry_id(entry): entry for entry in section.get("stages") or []}
    stages = tuple(overlay_stage(stage, changed.get(stage.stage_id, {})) for stage in deploy.stages)
    return replace(deploy, stages=stages, model_runner=section.get("model_runner", deploy.model_runner))


def overlay_stage(stage: StageDeployConfig, entry: Mapping[str, Any]) -> StageDeployConfig:
    """Lay one platform entry over a stage's deployment, mappings merged."""
    if not entry:
        return stage
    flat = {item.name: getattr(stage, item.name) for item in fields(stage) if item.name != "engine_extras"}
    present = {key: value for key, value in flat.items() if value is not None}
    return parse_stage(merge_deep({**present, "engine_extras": stage.engine_extras}, entry))
