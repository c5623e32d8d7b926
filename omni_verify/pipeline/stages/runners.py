"""Model runners: one scheduled step of an AR model, a decoder or an aligner."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import torch

from omni_verify.pipeline.code2wav import generate_audio
from omni_verify.pipeline.models.ar_engine import ArEngine, ArRequest, ArStepOutput
from omni_verify.pipeline.models.decoder import Decoder
from omni_verify.pipeline.models.forced_aligner import ForcedAligner
from omni_verify.pipeline.processors.aligner import decode_pooling_output
from omni_verify.pipeline.scheduling import RunnerOutput, SchedulerOutput
from omni_verify.pipeline.stages.messages import StageRequest

__all__ = ["AlignerRunner", "ArRunner", "Code2WavRunner"]

logger = logging.getLogger(__name__)

SAMPLE_RATE = 24_000
"""Samples a second of the decoder: 12.5 frames of 1920 samples."""


class ArRunner:
    """Drive an `ArEngine`: payloads of the upstream stage in, tokens and rows out."""

    def __init__(self, engine: ArEngine, *, receives_payloads: bool) -> None:
        self.engine, self.receives_payloads = engine, receives_payloads

    def admit(self, request: StageRequest) -> None:
        """Do nothing: the engine gets a request with its first step."""

    def execute(self, scheduled: SchedulerOutput) -> Mapping[str, RunnerOutput]:
        """Run one step of every scheduled request that the engine can advance."""
        self.engine.abort(sorted(scheduled.finished_req_ids))
        results: dict[str, RunnerOutput] = {}
        for new in scheduled.scheduled_new_reqs:
            info = new.additional_information or {}
            request = ArRequest(
                new.req_id,
                new.prompt_token_ids,
                new.sampling_params,
                resumable=new.resumable,
                additional_information={} if self.receives_payloads else info,
            )
            try:
                self.engine.add_request(request)
            except ValueError as error:  # the engine's refusal concerns this request only
                results[new.req_id] = RunnerOutput(error=str(error))
            else:
                self._feed(new.req_id, info)
        cached = scheduled.scheduled_cached_reqs
        for request_id in cached.req_ids:
            self._feed(request_id, cached.additional_information.get(request_id))
        chosen = [request_id for request_id in scheduled.num_scheduled_tokens if request_id not in results]
        for output in self.engine.step(chosen):
            results[output.request_id] = runner_output(output)
        return results

    def close(self) -> None:
        """Forget every request and stop the engine."""
        self.engine.close()

    def _feed(self, request_id: str, payload: Mapping[str, Any] | None) -> None:
        if self.receives_payloads and payload:
            self.engine.feed(request_id, payload)


def runner_output(output: ArStepOutput) -> RunnerOutput:
    """Translate one step of an engine."""
    return RunnerOutput(
        token_ids=list(output.new_token_ids),
        inter_stage_output=output.multimodal_output,
        num_computed_tokens=output.num_computed_tokens,
        stopped=output.finished and output.finish_reason != "length",
        length_capped=output.finished and output.finish_reason == "length",
        segment_finished=output.segment_finished,
    )


class Code2WavRunner:
    """Decode the chunks of a step in one batch; each row as if it were alone (I48).

    Args:
        async_chunk: prompts are windows of streams; otherwise complete utterances.
    """

    def __init__(self, decoder: Decoder, *, async_chunk: bool, sample_rate: int = SAMPLE_RATE) -> None:
        self.decoder, self.async_chunk, self.sample_rate = decoder, async_chunk, sample_rate
        self._limits: dict[str, int] = {}
        self._emitted: dict[str, int] = {}

    def admit(self, request: StageRequest) -> None:
        """Note a limit on the length."""
        if request.sampling_params.max_frames is not None:
            self._limits[request.request_id] = request.sampling_params.max_frames

    def execute(self, scheduled: SchedulerOutput) -> Mapping[str, RunnerOutput]:
        """Decode every scheduled chunk."""
        for request_id in scheduled.finished_req_ids:
            self._emitted.pop(request_id, None)
            self._limits.pop(request_id, None)
        cached = scheduled.scheduled_cached_reqs
        infos = dict(cached.additional_information)
        prompts = {request_id: cached.prompt_token_ids[request_id] for request_id in cached.req_ids}
        for new in scheduled.scheduled_new_reqs:
            prompts[new.req_id], infos[new.req_id] = new.prompt_token_ids, new.additional_information
        ids = list(scheduled.num_scheduled_tokens)
        if not ids:
            return {}
        rows = generate_audio(
            self.decoder,
            [codes_of(prompts[request_id], infos.get(request_id)) for request_id in ids],
            [infos.get(request_id) for request_id in ids],
            async_chunk=self.async_chunk,
        )
        results: dict[str, RunnerOutput] = {}
        for request_id, row in zip(ids, rows, strict=True):
            codes, samples = len(prompts[request_id]), row.waveform.numel()
            logger.debug("%s: %d codes decoded to %d new samples", request_id, codes, samples)
            results[request_id] = (
                RunnerOutput(error=row.error) if row.error else self._output(request_id, row.waveform)
            )
        return results

    def close(self) -> None:
        """Forget every request."""
        self._emitted.clear()
        self._limits.clear()

    def _output(self, request_id: str, waveform: torch.Tensor) -> RunnerOutput:
        limit = self._limits.get(request_id)
        if limit is None:
            return RunnerOutput(client_output=audio_output(waveform, self.sample_rate))
        before = self._emitted.get(request_id, 0)
        left = max(0, limit * self.decoder.total_upsample - before)
        self._emitted[request_id] = before + min(left, waveform.numel())
        return RunnerOutput(
            client_output=audio_output(waveform[:left], self.sample_rate),
            length_capped=waveform.numel() >= left,
        )


def codes_of(prompt: list[int], info: Mapping[str, Any] | None) -> list[int] | torch.Tensor:
    """Return a chunk's codes: the prompt, or the tensor that a placeholder prompt stands for."""
    audio = ((info or {}).get("codes") or {}).get("audio")
    return audio if isinstance(audio, torch.Tensor) and audio.ndim >= 2 else prompt


def audio_output(waveform: torch.Tensor, sample_rate: int) -> dict[str, Any] | None:
    """Build what the orchestrator gets: ``audio`` float32 ``[samples]`` on the host; None without samples."""
    if not waveform.numel():
        return None
    return {"audio": waveform.detach().to("cpu", torch.float32).contiguous(), "sr": sample_rate}


class AlignerRunner:
    """Align the words of one complete waveform in one step."""

    def __init__(self, model: ForcedAligner) -> None:
        self.model = model
        self._admitted: dict[str, StageRequest] = {}

    def admit(self, request: StageRequest) -> None:
        """Keep the waveform and its words until the step.

        Raises:
            ValueError: the request has no waveform.
        """
        if not (request.multi_modal_data or {}).get("audio"):
            raise ValueError("the aligner needs multi_modal_data['audio'] = (waveform, sample rate)")
        self._admitted[request.request_id] = request

    def execute(self, scheduled: SchedulerOutput) -> Mapping[str, RunnerOutput]:
        """Align every scheduled request."""
        results = {request_id: self._align(request_id) for request_id in scheduled.num_scheduled_tokens}
        for request_id in scheduled.finished_req_ids:
            self._admitted.pop(request_id, None)
        return results

    def close(self) -> None:
        """Forget every request."""
        self._admitted.clear()

    def _align(self, request_id: str) -> RunnerOutput:
        request = self._admitted[request_id]
        waveform, rate = (request.multi_modal_data or {})["audio"]
        words = request.additional_information["aligner_words"][0]
        logits = self.model(waveform, rate, words)
        times = decode_pooling_output(logits, request)
        return RunnerOutput(
            client_output={"timestamps": times.cpu(), "words": list(words)},
            num_computed_tokens=1,
            stopped=True,
        )
