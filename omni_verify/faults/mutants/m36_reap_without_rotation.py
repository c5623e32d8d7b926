"""Every reap looks at the same oldest 64 keys.

Behind 64 unread chunks nothing is ever forgotten.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M36",
    breaks=("I23",),
    source="vllm-omni#8082",
    summary="every reap looks at the same oldest 64 keys",
)


def apply() -> None:
    """Make the change."""
    edit(
        "shm_connector:SharedMemoryConnector.reap_consumed",
        (
            (
                "        for _ in range(min(REAP_BUDGET, len(self._pending_keys))):\n"
                "            key, inode = self._pending_keys.popitem(last=False)\n"
                "            if os.path.exists(segment_path(file_name(key))):\n"
                "                self._pending_keys[key] = inode\n"
            ),
            (
                "        for key in list(self._pending_keys)[:REAP_BUDGET]:\n"
                "            if not os.path.exists(segment_path(file_name(key))):\n"
                "                del self._pending_keys[key]\n"
            ),
        ),
    )
