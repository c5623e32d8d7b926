"""The Thinker: text tokens, and for every token position an embedding row and a hidden row.

Rows are pure functions of (dye, position, token), so chunked prefill, a resumed segment and another
engine that only supplies the tokens give the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from omni_verify.pipeline.models.exact import integer_weights, mix, wrap
from omni_verify.pipeline.models.tokenizer import FIRST_SYLLABLE, SYLLABLES
from omni_verify.pipeline.processors.hidden_rows import DEFAULT_ACCEPT_LAYER, EMBEDDING_LAYER
from omni_verify.pipeline.processors.prompts import IM_END

__all__ = ["Thinker"]

DYE, POSITION, TOKEN = 0, 1, 2
SHORTEST_ANSWER = 6


class Thinker(nn.Module):
    """A small recurrent text model with exact arithmetic.

    Args:
        hidden_size: columns of a row; the first three hold dye, position and token.
        seed: of the weights.
        accept_layer: number under which the hidden rows are published.
    """

    def __init__(
        self, hidden_size: int = 16, seed: int = 20, accept_layer: int = DEFAULT_ACCEPT_LAYER
    ) -> None:
        super().__init__()
        self.hidden_size, self.accept_layer = hidden_size, accept_layer
        self.embedding: torch.Tensor
        self.recurrent: torch.Tensor
        self.hidden: torch.Tensor
        self.head: torch.Tensor
        self.register_buffer("embedding", wrap(integer_weights(seed, 1024, hidden_size, limit=8000)))
        self.register_buffer("recurrent", integer_weights(seed + 1, hidden_size, hidden_size))
        self.register_buffer("hidden", integer_weights(seed + 2, hidden_size, hidden_size))
        self.register_buffer("head", integer_weights(seed + 3, len(SYLLABLES), hidden_size))

    def rows(self, token_ids: Sequence[int], first_position: int, dye: int) -> dict[str, torch.Tensor | dict]:  # type: ignore[type-arg]
        """Return ``hidden_states.layers`` for consecutive positions, float32 ``[n, H]`` each."""
        tokens = torch.tensor(list(token_ids), dtype=torch.int64, device=self.embedding.device)
        embed = self.embedding[torch.remainder(tokens, 1024)].clone()
        embed[:, DYE] = dye
        embed[:, POSITION] = torch.arange(first_position, first_position + len(tokens), device=embed.device)
        embed[:, TOKEN] = tokens.to(torch.float64)
        hidden = wrap(embed @ self.hidden.T)
        layers = {EMBEDDING_LAYER: embed.to(torch.float32), self.accept_layer: hidden.to(torch.float32)}
        return {"layers": layers}

    def special_rows(self) -> dict[str, torch.Tensor]:
        """Return the rows of the TTS begin, end and pad tokens, float32 ``[1, H]`` each."""
        return {
            name: self.embedding[1021 + i].to(torch.float32).unsqueeze(0)
            for i, name in enumerate(("tts_bos", "tts_eos", "tts_pad"))
        }

    def first_state(self) -> torch.Tensor:
        """Return the state before the first token, float64 ``[H]``."""
        return torch.zeros(self.hidden_size, dtype=torch.float64, device=self.embedding.device)

    def advance(self, state: torch.Tensor, token: int) -> torch.Tensor:
        """Return the state after one more token."""
        return wrap(self.recurrent @ state + self.embedding[token % 1024])

    def next_token(self, state: torch.Tensor, generated: int, noise_seed: int | None) -> int:
        """Return the next token: the best syllable, or the end of the turn.

        Args:
            state: after the newest token.
            generated: tokens generated so far; an answer has at least six.
            noise_seed: None for greedy, else the seed of the sampling noise.
        """
        scores = wrap(self.head @ state)
        if noise_seed is not None:
            scores = wrap(scores + mix("noise", noise_seed, generated) * self.head[:, 0])
        best = int(scores.argmax())
        if generated >= SHORTEST_ANSWER and int(scores.sum()) % 12 == 0:
            return IM_END
        return FIRST_SYLLABLE + best
