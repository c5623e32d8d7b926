"""A stage's process gets SIGTERM."""

import signal

from omni_verify.faults.nemeses.spec import Harm, NemesisSpec

NEMESIS = NemesisSpec(
    name="sigterm",
    story="the process of a stage is asked to end, as by an orchestrator that scales down",
    source="vllm-omni#8082",
    harm=Harm.SILENT,
    leaves=True,
    signal=signal.SIGTERM,
)
