"""The reader removes the lock file after it gave the lock up.

Meanwhile the next put has made its own: a segment without a lock, or two locks of one key.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M40",
    breaks=("I26",),
    source="weak spot W3",
    summary="the reader removes the lock file after it gave the lock up",
)


def apply() -> None:
    """Make the change."""
    edit(
        "shm_connector:SharedMemoryConnector._take",
        (("        if data:\n            lock.remove()\n        return data"), "        return data"),
        (
            ("    finally:\n        lock.release()\n"),
            (
                "    finally:\n"
                "        lock.release()\n"
                "        with contextlib.suppress(OSError, UnboundLocalError):\n"
                "            if data:\n"
                "                os.remove(path)\n"
            ),
        ),
    )
