"""The receiver's merge drops one field of meta.

What is needed to decode chunk k must travel with chunk k and arrive.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M25",
    breaks=("I15",),
    source="vllm-omni#2104",
    summary="the receiver's merge drops one field of meta",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.received:codes_update",
        (
            '(category, name) != ("meta", "finished")',
            '(category, name) not in (("meta", "finished"), ("meta", "ref_code_len"))',
        ),
    )
