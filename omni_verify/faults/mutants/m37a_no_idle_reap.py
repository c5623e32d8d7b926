"""An idle save loop does not reap.

Keys of the last chunks stay tracked after every request has ended.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M37a",
    breaks=("I23", "I51"),
    source="vllm-omni#8082",
    summary="an idle save loop does not reap",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.base:OmniTransferAdapterBase.save_loop",
        ("            self._contain(self._reap_consumed)\n", ""),
    )
