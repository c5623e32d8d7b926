"""A configuration without async_chunk counts as a chunk receiver.

A stage that was configured by hand waits for chunks that nobody sends.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="W33",
    breaks=("I9",),
    source="weak spot W33",
    summary="a configuration without async_chunk counts as a chunk receiver",
)


def apply() -> None:
    """Make the change."""
    edit(
        "config.resolver:stage_receives_chunks",
        (
            '    if not hasattr(model_config, "async_chunk"):\n',
            (
                '    if not hasattr(model_config, "async_chunk"):\n'
                '        return connector_role(model_config) != "sender"\n'
                '    if not hasattr(model_config, "async_chunk"):\n'
            ),
        ),
    )
