"""The chunk sizes of a codec edge, read from the connector's configuration.

They live there, and not on the model, because both ends of the edge have the connector
(article section 3.4).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from omni_verify.pipeline.config.errors import ConfigError

__all__ = ["ChunkSizes", "parse_ramp"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChunkSizes:
    """Sizes in codec frames (80 ms each).

    Attributes:
        initial: frames of the first chunk, 0 for "as the others".
        chunk: new frames of every further chunk, at least 1.
        left_context: at most so many frames are sent again before the new ones.
        ramp: explicit sizes of the first chunks; replaces ``initial`` where given.
    """

    initial: int = 0
    chunk: int = 25
    left_context: int = 25
    ramp: tuple[int, ...] = ()

    @classmethod
    def from_extra(cls, extra: Mapping[str, Any], *, where: str = "the connector") -> ChunkSizes:
        """Read the sizes; an absent key takes the default.

        Raises:
            ConfigError: a size is no integer or out of range.
        """
        sizes = {
            "initial": size_of(extra, "initial_codec_chunk_frames", 0, 0, where),
            "chunk": size_of(extra, "codec_chunk_frames", 1, 25, where),
            "left_context": size_of(extra, "codec_left_context_frames", 0, 25, where),
        }
        return cls(**sizes, ramp=parse_ramp(extra.get("codec_chunk_ramp"), sizes["chunk"]))


def size_of(extra: Mapping[str, Any], key: str, least: int, default: int, where: str) -> int:
    """Return one size, checked."""
    value = extra.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{where}: {key} must be an integer of at least {least}, got {value!r}.")
    return value


def parse_ramp(value: Any, chunk: int) -> tuple[int, ...]:
    """Read ``codec_chunk_ramp``: a list or a comma string of at least two positive integers.

    Anything else is ignored with a warning, as upstream does: the ramp only tunes latency.
    """
    if value is None:
        return ()
    items = value.split(",") if isinstance(value, str) else value
    return checked_ramp(tuple(map(str, items)) if isinstance(items, list | tuple) else (repr(value),), chunk)


@lru_cache(maxsize=64)
def checked_ramp(items: tuple[str, ...], chunk: int) -> tuple[int, ...]:
    """Convert and check a ramp; cached, so that a processor that asks at every step warns once."""
    try:
        sizes = tuple(int(item) for item in items)
    except ValueError:
        sizes = ()
    if len(sizes) < 2 or min(sizes) < 1:
        logger.warning("codec_chunk_ramp %s is ignored: it needs at least two positive integers", items)
        return ()
    if sizes[-1] != chunk:
        logger.warning("codec_chunk_ramp ends with %d, later chunks have %d frames", sizes[-1], chunk)
    return sizes
