"""Joins the outputs of a request's steps into its full output, for edges that hand over once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

__all__ = ["concat_outputs"]


def concat_outputs(outputs: Sequence[Mapping[str, Any] | None]) -> dict[str, Any]:
    """Return one nested output: rows of ``hidden_states.layers`` and ``codes`` joined, others the latest.

    Args:
        outputs: the nested ``multimodal_output`` of each step, in order; None is skipped.
    """
    joined: dict[str, Any] = {}
    layers: dict[Any, list[torch.Tensor]] = {}
    codes: dict[str, list[torch.Tensor]] = {}
    for output in outputs:
        for category, value in (output or {}).items():
            if category == "codes":
                for name, rows in value.items():
                    codes.setdefault(name, []).append(rows if rows.ndim > 1 else rows.unsqueeze(0))
            elif category == "hidden_states":
                for number, rows in (value.get("layers") or {}).items():
                    layers.setdefault(number, []).append(rows if rows.ndim > 1 else rows.unsqueeze(0))
            else:
                joined[category] = value
    if layers:
        joined["hidden_states"] = {"layers": {number: torch.cat(rows) for number, rows in layers.items()}}
    if codes:
        joined["codes"] = {name: torch.cat(rows) for name, rows in codes.items()}
    return joined
