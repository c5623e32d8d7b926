"""Left_context_size travels in the transport metadata.

A receiver without that metadata, or another connector, loses the value.
"""

from omni_verify.faults.mutants.mutant import Mutant, edit

__all__ = ["MUTANT", "apply"]

MUTANT = Mutant(
    id="M27",
    breaks=("I16",),
    source="vllm-omni#4421",
    summary="left_context_size travels in the transport metadata",
)


def apply() -> None:
    """Make the change."""
    edit(
        "shm_connector:SharedMemoryConnector.put",
        (
            "        payload = self.serialize_obj(data)\n",
            (
                '        context = getattr(getattr(data, "meta", None), "left_context_size", None)\n'
                "        if context is not None:\n"
                "            data.meta.left_context_size = None\n"
                "        payload = self.serialize_obj(data)\n"
            ),
        ),
        (
            '{"shm": meta, "size": meta["size"]}',
            '{"shm": meta, "size": meta["size"], "left_context_size": context}',
        ),
    )
