"""Remove by name what a killed stage put for one request; its memory of the keys died with it (I53)."""

from __future__ import annotations

import logging
import os
from typing import Any

from omni_verify.contracts.keys import SHM_ROOT, build_key, file_name, key_of_lock_name, sequence_prefix
from omni_verify.pipeline.journal import sweep_dead_owners
from omni_verify.pipeline.stages.dead_fifos import remove_dead_fifos

__all__ = ["leftover_chunk_ids", "reclaim_request", "remove_what_the_dead_left"]

logger = logging.getLogger(__name__)

MAX_ESCAPED_CHUNKS = 4096
"""How many chunk ids are tried for an id whose keys are not file names themselves."""


def leftover_chunk_ids(external_req_id: str, stage_id: int) -> list[int]:
    """List the chunk ids of one stream that have a segment or a lock file, by exact key (I21)."""
    prefix = sequence_prefix(external_req_id, stage_id)
    names = os.listdir(SHM_ROOT)
    if file_name(prefix + "0") != prefix + "0":
        present = {key_of_lock_name(name) or name for name in names}
        keys = (build_key(external_req_id, stage_id, chunk_id) for chunk_id in range(MAX_ESCAPED_CHUNKS))
        return [chunk_id for chunk_id, key in enumerate(keys) if file_name(key) in present]
    found = set()
    for name in names:
        key = key_of_lock_name(name) or name
        rest = key[len(prefix) :]
        if key.startswith(prefix) and rest.isascii() and rest.isdigit():
            found.add(int(rest))
    return sorted(found)


def reclaim_request(connector: Any, external_req_id: str, stage_id: int) -> int:
    """Remove every chunk of one stream that the stage's predecessor left; returns how many there were."""
    removed = 0
    for chunk_id in leftover_chunk_ids(external_req_id, stage_id):
        try:
            connector.cleanup(build_key(external_req_id, stage_id, chunk_id))
        except Exception:  # one stuck key must not keep the others
            logger.exception("reclaim of chunk %d of %s failed", chunk_id, external_req_id)
        else:
            removed += 1
    return removed


def remove_what_the_dead_left(directory: str) -> None:
    """Remove chunks, journals and FIFOs of killed stages; for the launcher, when every stage has ended.

    A sibling that closes sweeps as well, but spares what is busy just then, and may itself be killed.
    """
    sweep_dead_owners(directory)
    remove_dead_fifos(directory)
