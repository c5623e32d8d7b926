"""A chunk that is there is not seen yet."""

from omni_verify.faults.nemeses.spec import Harm, NemesisSpec, has_segment

NEMESIS = NemesisSpec(
    name="get-late",
    story="connector.get says 'not yet' although the object is there",
    source="article section 3.2",
    point="get",
    applies=has_segment,
    strike=lambda blow: None,
    harm=Harm.NONE,
    strikes=2,
)
