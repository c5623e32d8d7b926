"""An exception of the reap ends the save thread.

The stage stops sending without a word.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="W11",
    breaks=("I37b",),
    source="weak spot W11",
    summary="an exception of the reap ends the save thread",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.base:OmniTransferAdapterBase._contain",
        ("except Exception as error:", "except RecursionError as error:"),
    )
