"""A stage's process gets SIGSTOP."""

import signal

from omni_verify.faults.nemeses.spec import Harm, NemesisSpec

NEMESIS = NemesisSpec(
    name="sigstop",
    story="the process of a stage is stopped for a while, as by a debugger or a frozen container",
    source="vllm-omni#4855",
    harm=Harm.SILENT,
    leaves=True,
    signal=signal.SIGSTOP,
)
