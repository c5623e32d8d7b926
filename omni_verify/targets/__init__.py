"""Systems under test: what is checked, how it is named, and where its instrumentation points lie."""

from omni_verify.targets.protocol import Capabilities, ModuleRole, Target, TargetInfo
from omni_verify.targets.registry import names, register_variant, resolve, variants

__all__ = [
    "Capabilities",
    "ModuleRole",
    "Target",
    "TargetInfo",
    "names",
    "register_variant",
    "resolve",
    "variants",
]
