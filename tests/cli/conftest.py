"""The command line in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUPPORT = ROOT / "tests" / "support"


@pytest.fixture
def environment(tmp_path):
    """Environment of a plain terminal of 100 columns, with the fake target's modules in reach."""
    ours = {
        k: v for k, v in os.environ.items() if not k.startswith("OMNI_VERIFY_") or k == "OMNI_VERIFY_CACHE"
    }
    return {
        **ours,
        "NO_COLOR": "1",
        "COLUMNS": "100",
        "PYTHONPATH": f"{ROOT}:{SUPPORT}",
        "TMPDIR": str(tmp_path),
    }


@pytest.fixture
def omni(tmp_path, environment):
    """Run ``omni-verify ARGS`` in an empty folder and return the finished process."""

    def run(*args, program="omni_verify", **env):
        return subprocess.run(
            [sys.executable, "-m", program, *args],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**environment, **env},
            timeout=250,
        )

    return run


@pytest.fixture
def fake_omni(omni):
    """The command line over the fake target and catalogue."""
    return lambda *args, **env: omni(*args, program="fake_cli", **env)
