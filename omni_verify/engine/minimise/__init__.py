"""Shrink a failing schedule: fewest preemptions, then fewest switches, then fewest steps."""

from __future__ import annotations

from omni_verify.engine.minimise.minimised import Minimised
from omni_verify.engine.minimise.shrinking import MAX_RERUNS, minimise

__all__ = ["MAX_RERUNS", "Minimised", "minimise"]
