"""A stage's process gets SIGKILL."""

import signal

from omni_verify.faults.nemeses.spec import Harm, NemesisSpec

NEMESIS = NemesisSpec(
    name="sigkill",
    story="the process of a stage is killed at once, with puts in flight and chunks unread",
    source="vllm-omni#8082",
    harm=Harm.SILENT,
    leaves=True,
    signal=signal.SIGKILL,
)
