"""A request is over when its upstream is, although a chunk is not computed yet.

The last codes are never decoded.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="H03",
    breaks=("I47",),
    source="vllm-omni#1410",
    summary="a request is over when its upstream is, although a chunk is not computed yet",
)


def apply() -> None:
    """Make the change."""
    edit(
        "scheduling.generation:OmniGenerationScheduler._try",
        ("if has_nothing_to_run(request):", "if has_nothing_to_run(request) or self._is_done(request):"),
    )
