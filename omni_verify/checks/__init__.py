"""Oracles: an observation of a run in, findings out; one file an invariant family."""

from omni_verify.checks.common import COMMON, attribute, run_common
from omni_verify.checks.observation import Broken, Delivered, Leftover, Observation, Sent

__all__ = ["COMMON", "Broken", "Delivered", "Leftover", "Observation", "Sent", "attribute", "run_common"]
