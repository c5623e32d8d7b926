"""Resolves the dotted paths of a topology at start, so that a typing mistake is no run-time surprise."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from omni_verify.pipeline.config.errors import ConfigError

__all__ = ["load_function"]


def load_function(path: str, *, where: str = "the topology") -> Callable[..., Any]:
    """Return the function that ``package.module.function`` names.

    Raises:
        ConfigError: no such module, no such attribute, or not callable.
    """
    module_name, _, name = path.rpartition(".")
    try:
        found = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"{where} names the function {path!r}, which cannot be loaded: {error}. Correct the dotted path."
        ) from error
    if not callable(found):
        raise ConfigError(f"{where} names {path!r}, which is a {type(found).__name__} and not a function.")
    return found  # type: ignore[no-any-return]
