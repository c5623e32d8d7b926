"""Every segment is registered with the resource tracker.

Python's tracker process grows, and unlinks live segments when this process ends.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="W29",
    breaks=("I52", "I53"),
    source="weak spot W29",
    summary="every segment is registered with the resource tracker",
)


def apply() -> None:
    """Make the change."""
    edit(
        "segments:_fill_new",
        (
            "    shm = _create(name)\n",
            (
                "    shm = _create(name)\n"
                "    from multiprocessing import resource_tracker\n"
                "\n"
                '    resource_tracker.register(f"/{name}", "shared_memory")\n'
            ),
        ),
    )
