"""The put reports failure although the object exists."""

from omni_verify.faults.nemeses.spec import NemesisSpec

NEMESIS = NemesisSpec(
    name="put-false-late",
    story="connector.put stores the object and returns False",
    source="vllm-omni#6033; article section 5.3",
    point="put",
    after=True,
    strike=lambda blow: (False, 0, None),
)
