"""What goes wrong on purpose: nemeses and seeded bugs.

The seeded bugs are in `omni_verify.faults.mutants`, which registers them as targets when it is imported.
"""

from omni_verify.faults.nemesis import Fault, Injected, Nemesis

__all__ = ["Fault", "Injected", "Nemesis"]
