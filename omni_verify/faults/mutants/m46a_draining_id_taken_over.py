"""A new request takes over an id whose old stream still drains.

Chunks of two requests share one sequence of keys.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M46a",
    breaks=("I32",),
    source="vllm-omni#6089",
    summary="a new request takes over an id whose old stream still drains",
)


def apply() -> None:
    """Make the change."""
    edit(
        "transfer_adapter.admission:SenderAdmission._refusal_locked",
        (
            (
                "        # The id is used again while its last request is aborted, failed, or "
                "its terminal still queued.\n"
                "        self._mark_retired(request)\n"
                '        return "previous sender generation is still draining"\n'
            ),
            ("        del self._sender_tokens[ext]\n        return None\n"),
        ),
    )
