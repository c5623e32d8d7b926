"""An exception of one item ends the save thread.

All requests of the stage stop, and nothing says why.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M51b",
    breaks=("I37b",),
    source="weak spot W11",
    summary="an exception of one item ends the save thread",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.base:OmniTransferAdapterBase._drain_save_queue",
        ("except Exception as error:", "except RecursionError as error:"),
    )
