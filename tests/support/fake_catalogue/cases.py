"""Scenarios whose programs never run: `fake_target.run` plays them."""

from omni_verify.harness.scenario import scenario

NAMES = (
    "held",
    "violated",
    "cut",
    "crash",
    "killed",
    "exits",
    "raises",
    "hang",
    "leaves",
    "held-too",
    "garbage",
)


def _program(script):
    """A scenario that is played by the fake runner."""


for _name in NAMES:
    scenario(f"fake/{_name}", invariants=("I51",), source="article section 1", crash="I27b")(_program)
