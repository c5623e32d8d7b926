"""What is left behind: files under /dev/shm, processes, and state of adapters and connectors."""

from omni_verify.audit.clean import Removal, clean
from omni_verify.audit.judgement import Finding, Holder, Judgement
from omni_verify.audit.live_audit import Audit, Scope, take_audit
from omni_verify.audit.namespace import available, enter
from omni_verify.audit.series import PHASES, Sample, Series, SeriesWriter, read_series
from omni_verify.audit.server_trees import ServerTrees
from omni_verify.audit.shm import Entry, Listing, scan, sweep
from omni_verify.audit.state import StateEntry, container_sizes, find_entries, find_prefixed
from omni_verify.audit.watch import Sighting, Watch, WatchCounts

__all__ = [
    "PHASES",
    "Audit",
    "Entry",
    "Finding",
    "Holder",
    "Judgement",
    "Listing",
    "Removal",
    "Sample",
    "Scope",
    "Series",
    "SeriesWriter",
    "ServerTrees",
    "Sighting",
    "StateEntry",
    "Watch",
    "WatchCounts",
    "available",
    "clean",
    "container_sizes",
    "enter",
    "find_entries",
    "find_prefixed",
    "read_series",
    "scan",
    "sweep",
    "take_audit",
]
