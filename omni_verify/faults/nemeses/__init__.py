"""Nemeses by name: what the world does to a pipeline, one file each.

A nemesis strikes at a point, in the place of the real call or after it. It composes with any scenario,
with exploration and with fuzzing, because it decides nothing about who runs next.
"""

from omni_verify.faults.nemeses.registry import choose, nemeses
from omni_verify.faults.nemeses.roaming import Roaming, Strike
from omni_verify.faults.nemeses.spec import Blow, Harm, NemesisSpec

__all__ = ["Blow", "Harm", "NemesisSpec", "Roaming", "Strike", "choose", "nemeses"]
