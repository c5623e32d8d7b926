"""A consumed object stays where it was, to be delivered again to whoever asks."""

from omni_verify.faults.nemeses.spec import Harm, NemesisSpec

NEMESIS = NemesisSpec(
    name="get-twice",
    story="the removal of a consumed segment has no effect: its key can be read a second time",
    source="conformance contract: consume once",
    point="seg.unlink",
    during="get",
    strike=lambda blow: None,
    harm=Harm.NONE,
    leaves=True,
)
