"""The catalogue as a test module: ``pytest --pyargs omni_verify.race --omni-target TARGET``.

In a suite of your own, this file's one test is all that you need.
"""

from __future__ import annotations

from typing import Any


def test_scenario(omni_case: Any) -> None:
    """The contracts of one scenario hold for the target of this session."""
    omni_case.verify()
