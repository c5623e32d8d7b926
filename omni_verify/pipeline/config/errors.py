"""The error of a configuration that cannot work, raised while the pipeline starts."""

from __future__ import annotations

from omni_verify.errors import UsageError

__all__ = ["ConfigError"]


class ConfigError(UsageError, ValueError):
    """A topology or deploy file is wrong: the message names both ends and says what to change.

    It is a ``ValueError`` as well, because callers of the public vllm-omni builders expect one.
    """
