"""What must hold: invariants and weak spots by id, the payload schema, the names in shared memory.

Import the registries as modules (``from omni_verify.contracts import invariants, weakspots``); keys and
payload live in ``contracts.keys`` and ``contracts.payload_schema``. Nothing here imports torch.
"""

from omni_verify.contracts.entry import Invariant, Scope, WeakSpot

__all__ = ["Invariant", "Scope", "WeakSpot"]
