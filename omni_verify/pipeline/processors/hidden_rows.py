"""The Thinker's rows that condition the Talker: one embedding and one hidden row per token position."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

__all__ = ["HiddenRows", "accept_hidden_layer", "hidden_rows"]

EMBEDDING_LAYER = 0
DEFAULT_ACCEPT_LAYER = 24


class HiddenRows(NamedTuple):
    """Rows of equal number: ``embed`` and ``hidden`` are floats ``[n, H]`` on the CPU."""

    embed: torch.Tensor
    hidden: torch.Tensor

    def __len__(self) -> int:
        """Return the number of token positions."""
        return int(self.embed.shape[0])

    def then(self, later: HiddenRows) -> HiddenRows:
        """Return these rows followed by later ones."""
        return HiddenRows(torch.cat([self.embed, later.embed]), torch.cat([self.hidden, later.hidden]))


def accept_hidden_layer(transfer_manager: Any) -> int:
    """Return the layer whose hidden state the Talker accepts (``hf_config.talker_config``)."""
    talker = getattr(getattr(transfer_manager, "hf_config", None), "talker_config", None)
    layer = talker.get("accept_hidden_layer") if isinstance(talker, Mapping) else None
    layer = getattr(talker, "accept_hidden_layer", layer)
    return DEFAULT_ACCEPT_LAYER if layer is None else int(layer)


def hidden_rows(transfer_manager: Any, multimodal_output: Mapping[str, Any] | None) -> HiddenRows | None:
    """Return the step's rows, or None where the step carries none.

    Args:
        transfer_manager: gives the accepted layer.
        multimodal_output: ``hidden_states.layers`` with int or str keys.

    Raises:
        ValueError: embedding and hidden rows differ in number.
    """
    layers = ((multimodal_output or {}).get("hidden_states") or {}).get("layers") or {}
    embed = layer_rows(layers, EMBEDDING_LAYER)
    hidden = layer_rows(layers, accept_hidden_layer(transfer_manager))
    if embed is None or hidden is None:
        return None
    if embed.shape[0] != hidden.shape[0]:
        raise ValueError(f"{embed.shape[0]} embedding rows but {hidden.shape[0]} hidden rows in one step")
    return HiddenRows(embed, hidden)


def layer_rows(layers: Mapping[Any, Any], number: int) -> torch.Tensor | None:
    """Return one layer as ``[n, H]`` on the CPU."""
    layer = layers.get(number, layers.get(str(number)))
    if not isinstance(layer, torch.Tensor):
        return None
    layer = layer.detach().cpu()
    return layer.unsqueeze(0) if layer.ndim == 1 else layer
