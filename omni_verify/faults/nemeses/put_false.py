"""The put reports failure and has stored nothing."""

from omni_verify.faults.nemeses.spec import NemesisSpec

NEMESIS = NemesisSpec(
    name="put-false",
    story="connector.put returns False and nothing is stored",
    source="vllm-omni#6033",
    point="put",
    strike=lambda blow: (False, 0, None),
    strikes=2,
)
