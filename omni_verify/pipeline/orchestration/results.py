"""Results that the orchestrator completes itself: for a consumer that reads once, or when no input comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from omni_verify.pipeline.orchestration.messages import CompletionOutput, OutputMessage, RequestOutput
from omni_verify.pipeline.orchestration.state import RequestState, StageInfo
from omni_verify.pipeline.stages.messages import FinishReason

__all__ = ["complete_result", "empty_final_output"]


def complete_result(state: RequestState, processed: RequestOutput) -> RequestOutput:
    """Give a consumer that reads once all tokens of the finished stage, next to its multimodal data (I10).

    The multimodal data is what this emission carries: everything under CUMULATIVE and FINAL_ONLY,
    but only the last piece under DELTA, which is why a request that needs its whole waveform again
    must not use DELTA (I49, vllm-omni#7544).
    """
    accumulator = state.accumulators[processed.stage_id]
    completion = replace(processed.outputs[0], token_ids=list(accumulator.token_ids))
    prompt = list(state.prompt.get("prompt_token_ids") or ())
    return replace(processed, outputs=[completion], prompt_token_ids=prompt)


def empty_final_output(state: RequestState, stages: Sequence[StageInfo]) -> OutputMessage:
    """Build the terminal message of a final stage that gets no input at all."""
    stage = stages[state.final_stage_id]
    completion = CompletionOutput(finish_reason=FinishReason.STOP)
    if stage.final_output_type == "audio":
        import torch

        completion.multimodal_output = {"audio": torch.zeros(0, dtype=torch.float32), "sr": 24000}
    output = RequestOutput(state.request_id, stage.stage_id, [completion], finished=True)
    return OutputMessage(state.request_id, stage.stage_id, str(stage.final_output_type), output)
