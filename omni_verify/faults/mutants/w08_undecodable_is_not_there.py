"""Bytes that do not decode read as not there yet.

They are consumed, and the receiver polls for them until its deadline.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="W08",
    breaks=("I20", "I46"),
    source="weak spot W8",
    summary="bytes that do not decode read as not there yet",
)


def apply() -> None:
    """Make the change."""
    edit(
        "shm_connector:SharedMemoryConnector.get",
        (
            "    return self.deserialize_obj(data), len(data)",
            (
                "    try:\n"
                "        return self.deserialize_obj(data), len(data)\n"
                "    except ValueError:\n"
                "        return None"
            ),
        ),
    )
