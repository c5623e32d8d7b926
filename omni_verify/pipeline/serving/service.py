"""What the endpoints share: the model's name, the engine, the default parameters and the metrics."""

from __future__ import annotations

from collections.abc import Sequence

from omni_verify.pipeline.orchestration.pipeline import Pipeline, default_params
from omni_verify.pipeline.serving.engine import AsyncEngine
from omni_verify.pipeline.serving.metrics import ServerMetrics
from omni_verify.pipeline.serving.refusals import ServedModel
from omni_verify.pipeline.stages.params import SamplingParams

__all__ = ["Service"]


class Service:
    """One served pipeline.

    `defaults` are shared by all requests; a request works on clones (I41).
    """

    def __init__(self, pipeline: Pipeline, model_name: str, *, max_input_tokens: int = 32_768) -> None:
        self.pipeline = pipeline
        outputs = tuple(str(info.final_output_type) for info in pipeline.infos if info.final_output)
        self.model = ServedModel(
            model_name,
            outputs=outputs,
            is_chat="text" in outputs,
            has_aligner="timestamps" in outputs,
            max_input_tokens=max_input_tokens,
        )
        self.defaults: Sequence[SamplingParams] = [default_params(config) for config in pipeline.configs]
        self.engine = AsyncEngine(pipeline)
        self.metrics = ServerMetrics(pipeline.statistics)
