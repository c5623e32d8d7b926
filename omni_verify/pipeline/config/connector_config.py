"""The connector object of each stage: which class, and the chunk sizes that the processors read from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omni_verify.errors import unknown_value
from omni_verify.pipeline.config.chunk_sizes import ChunkSizes
from omni_verify.pipeline.config.deploy import DeployConfig, StageDeployConfig
from omni_verify.pipeline.config.errors import ConfigError
from omni_verify.pipeline.config.resolver import resolve_stage_async_chunk
from omni_verify.pipeline.config.topology import PipelineConfig, StagePipelineConfig

__all__ = ["DEFAULT_CONNECTOR", "build_connector_config", "edge_connectors", "validate_connectors"]

DEFAULT_CONNECTOR = "SharedMemoryConnector"


def edge_connectors(pipeline: PipelineConfig, deploy: DeployConfig) -> dict[tuple[int, int], str]:
    """Return ``{(from stage, to stage): connector name}`` for every edge that names a connector.

    Raises:
        ConfigError: the consumer's and the producer's entry name different connectors.
    """
    found: dict[tuple[int, int], str] = {}
    for producer, consumer in pipeline.edges():
        a, b = producer.stage_id, consumer.stage_id
        taken = ((deploy.get_stage(b) or StageDeployConfig(b)).input_connectors or {}).get(f"from_stage_{a}")
        given = ((deploy.get_stage(a) or StageDeployConfig(a)).output_connectors or {}).get(f"to_stage_{b}")
        if taken and given and taken != given:
            raise ConfigError(
                f"connector edge {a} -> {b}: stage {a} sends through {given!r} and stage {b} reads from "
                f"{taken!r}. Name the same connector in output_connectors of stage {a} and input_connectors "
                f"of stage {b}."
            )
        if name := taken or given:
            found[a, b] = name
    return found


def validate_connectors(pipeline: PipelineConfig, deploy: DeployConfig) -> None:
    """Check every named connector and its chunk sizes.

    Raises:
        ConfigError: a stage names an edge that the topology lacks, an edge names a connector that the
            deployment lacks, or a chunk size is impossible.
    """
    declared = deploy.connectors or {}
    edges = {(a.stage_id, b.stage_id) for a, b in pipeline.edges()}
    for stage in deploy.stages:
        if pipeline.get_stage(stage.stage_id) is not None:
            for edge in named_edges(stage):
                if edge not in edges:
                    known = ", ".join(f"{a} -> {b}" for a, b in sorted(edges))
                    raise ConfigError(
                        f"stage {stage.stage_id} names a connector for edge {edge[0]} -> {edge[1]}, which "
                        f"pipeline {pipeline.model_type!r} does not have. Its edges: {known or 'none'}."
                    )
    for (a, b), name in edge_connectors(pipeline, deploy).items():
        if name not in declared:
            raise ConfigError(str(unknown_value(f"connector of edge {a} -> {b}", name, declared)))
    for name, body in declared.items():
        ChunkSizes.from_extra(body.get("extra") or {}, where=f"connector {name!r}")


def named_edges(stage: StageDeployConfig) -> list[tuple[int, int]]:
    """Return the edges for which a stage's entry names a connector."""
    here = stage.stage_id
    taken = [(edge_end(key, "from_stage_", here), here) for key in stage.input_connectors or {}]
    return taken + [(here, edge_end(key, "to_stage_", here)) for key in stage.output_connectors or {}]


def edge_end(key: str, prefix: str, stage_id: int) -> int:
    """Return K of ``from_stage_K`` or ``to_stage_K``."""
    number = key.removeprefix(prefix)
    if not key.startswith(prefix) or not number.isdecimal():
        raise ConfigError(f"stage {stage_id} has connector key {key!r}; expected {prefix}<stage id>.")
    return int(number)


def build_connector_config(
    pipeline: PipelineConfig, deploy: DeployConfig, stage: StagePipelineConfig
) -> dict[str, Any]:
    """Build ``{"name", "extra"}`` for the stage's one connector object.

    The object serves the stage's outgoing edge and its incoming one, so both must use the same
    declaration where both are named. ``extra`` always says ``stage_id`` and the resolved mode (I2).

    Raises:
        ConfigError: the two edges of the stage name different connectors.
    """
    edges = edge_connectors(pipeline, deploy)
    names = {edge: name for edge, name in edges.items() if stage.stage_id in edge}
    if len(set(names.values())) > 1:
        shown = ", ".join(f"edge {a} -> {b} uses {name!r}" for (a, b), name in names.items())
        raise ConfigError(f"stage {stage.stage_id} has one connector object, but {shown}. Use one of them.")
    name = next(iter(names.values()), None)
    body: Mapping[str, Any] = (deploy.connectors or {}).get(name, {}) if name else {}
    resolved = resolve_stage_async_chunk(deploy, deploy.get_stage(stage.stage_id))
    extra = {**(body.get("extra") or {}), "stage_id": stage.stage_id, "async_chunk": resolved}
    return {"name": body.get("name", DEFAULT_CONNECTOR), "extra": extra}
