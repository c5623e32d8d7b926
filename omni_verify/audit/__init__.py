"""What is left behind: files under /dev/shm, processes, and state of adapters and connectors."""

from omni_verify.audit.namespace import available, enter
from omni_verify.audit.process import Census, ProcessSample, census
from omni_verify.audit.series import PHASES, Sample, Series, SeriesWriter, read_series
from omni_verify.audit.shm import Entry, Listing, scan, sweep
from omni_verify.audit.state import StateEntry, container_sizes, find_entries

__all__ = [
    "PHASES",
    "Census",
    "Entry",
    "Listing",
    "ProcessSample",
    "Sample",
    "Series",
    "SeriesWriter",
    "StateEntry",
    "available",
    "census",
    "container_sizes",
    "enter",
    "find_entries",
    "read_series",
    "scan",
    "sweep",
]
