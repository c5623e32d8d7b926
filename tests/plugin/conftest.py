"""Projects of a user in which the plugin runs, with the fake target of `tests/support`."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUPPORT = ROOT / "tests" / "support"


@pytest.fixture
def project(pytester, monkeypatch):
    """A project whose race tests play the fake catalogue; `run(*args)` runs pytest in it."""
    monkeypatch.setenv("PYTHONPATH", f"{SUPPORT}:{ROOT}")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for name in ("TARGET", "SELECT", "LOADER", "ISOLATION", "KNOWN_FAILURES", "REPLAY"):
        monkeypatch.delenv(f"OMNI_VERIFY_{name}", raising=False)
    pytester.makeconftest(
        """
        import functools
        import omni_verify.campaign as campaign
        import omni_verify.harness.scenario as scenario
        from omni_verify.settings import Settings

        campaign.Zygote = functools.partial(
            campaign.Zygote, resolver="fake_target:resolve", case_entry="fake_target:run",
            catalogue="fake_catalogue", settings=Settings(case_s=20),
        )
        campaign.chosen = functools.partial(campaign.chosen, package="fake_catalogue")
        """
    )
    pytester.makepyfile(test_contracts="def test_contracts(omni_case):\n    omni_case.verify()\n")

    def run(*args):
        return pytester.runpytest_subprocess(
            "-p", "omni_verify_pytest", "-p", "no:cacheprovider", *args, timeout=120
        )

    pytester.run_race = lambda *args: run("-m", "race", "--omni-target=fake", *args)
    pytester.run_plain = run
    return pytester
