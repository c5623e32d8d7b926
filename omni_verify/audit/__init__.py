"""What is left behind: files under /dev/shm, processes, and state of adapters and connectors."""

from omni_verify.audit.namespace import available, enter
from omni_verify.audit.process import Census, ProcessSample, census
from omni_verify.audit.shm import Entry, Listing, scan, sweep
from omni_verify.audit.state import StateEntry, container_sizes, find_entries

__all__ = [
    "Census",
    "Entry",
    "Listing",
    "ProcessSample",
    "StateEntry",
    "available",
    "census",
    "container_sizes",
    "enter",
    "find_entries",
    "scan",
    "sweep",
]
