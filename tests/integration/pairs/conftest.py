"""Runs of pairs, one a module: loading a target is what takes the time."""

import functools
import os
from pathlib import Path

import pytest

from omni_verify.campaign import Zygote
from omni_verify.campaign.pairs.run import pairs
from omni_verify.contracts.keys import wake_directory
from omni_verify.settings import Settings


@pytest.fixture(scope="module")
def seeded_zygote():
    """Builds zygotes for the references with seeded bugs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))
        yield functools.partial(Zygote, resolver="broken_target:resolve")


@pytest.fixture(scope="module")
def run_pairs():
    """Run pairs with bounds for a slow machine; afterwards nothing of it is left under /dev/shm."""
    prefixes = []

    def run(targets, select=(), *, zygote=Zygote, **options):
        def remembered(*args, **more):
            made = zygote(*args, **more)
            prefixes.append(made.prefix)
            return made

        return pairs(targets, select, zygote=remembered, settings=Settings(case_s=100), **options)

    yield run
    scopes = [f"{prefix}p{n}-" for prefix in prefixes for n in range(1, 100)]
    wakes = {os.path.basename(wake_directory(os.getuid(), 0, scope)) for scope in scopes}
    assert prefixes and not [
        p for p in Path("/dev/shm").iterdir() if p.name in wakes or any(x in p.name for x in prefixes)
    ]
