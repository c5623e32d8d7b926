"""vllm-omni as a target: fetch a release, import its connector and adapter with or without vllm.

The only package that imports ``vllm_omni``, and only by name at run time.
"""

from omni_verify.targets.vllm_omni.target import VllmOmniTarget

__all__ = ["VllmOmniTarget"]
