"""The pytest plugin in a project of a user."""

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_import_is_light():
    heavy = ("torch", "msgspec", "rich", "typer", "numpy", "omni_verify")
    code = f"import sys, omni_verify_pytest; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_project_that_does_not_use_it_sees_nothing(project):
    project.makepyfile(test_contracts="def test_own():\n    pass\n")
    result = project.run_plain()
    result.assert_outcomes(passed=1)
    assert "omni-verify:" not in result.stdout.str()


def test_held_passes_and_violated_fails_with_the_story(project):
    result = project.run_race("--omni-select", "fake/held fake/violated", "-q")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "I51 violated: 1 segment is left",
            "*scenario*fake/violated*",
            "*order*abort.enter(R) < put.enter(R_0_0)*",
            "*expected*none*",
            "*found*R_0_0*",
            "*replay*--omni-replay=fake/violated*",
        ]
    )
    assert "omni_verify_pytest.py" not in result.stdout.str(), "no frame of the plugin is shown"


def test_header_says_what_is_tested(project):
    result = project.run_race("--omni-select=fake/held", "--omni-isolation=prefix")
    result.stdout.fnmatch_lines(
        ["omni-verify: target fake · loader auto · isolation prefix · select fake/held"]
    )


def test_crash_and_inconclusive_fail(project):
    project.run_race("--omni-select=fake/crash,fake/cut").assert_outcomes(failed=2)
    project.run_race("--omni-select=fake/cut", "--omni-allow-inconclusive").assert_outcomes(skipped=1)


def test_marker_selects(project):
    project.makepyfile(test_own="def test_own():\n    pass\n")
    project.run_race("--omni-select=fake/held").assert_outcomes(passed=1, deselected=1)
    project.run_plain("-m", "not race").assert_outcomes(passed=1, deselected=11)


def test_option_wins_over_environment_wins_over_ini(project, monkeypatch):
    project.makeini("[pytest]\nomni_target = fake\nomni_select = fake/held\n")
    project.run_plain().assert_outcomes(passed=1)
    monkeypatch.setenv("OMNI_VERIFY_SELECT", "fake/violated")
    project.run_plain().assert_outcomes(failed=1)
    project.run_plain("--omni-select=fake/held*").assert_outcomes(passed=2)


def test_replay_runs_exactly_one(project):
    project.run_race("--omni-replay=fake/violated").assert_outcomes(failed=1)
    result = project.run_race("--omni-replay=ov1.abc")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*not a schedule token: 'ov1.abc'*"])


def test_known_failures(project):
    table = '[[known_failure]]\nid = "{}"\ntarget = "fake"\nreason = "it leaks"\nlink = "W21"\n'
    project.makefile(".toml", known=table.format("fake/violated"))
    select = "--omni-select=fake/held,fake/violated"
    result = project.run_race(select, "--omni-known-failures=known.toml", "-rx")
    result.assert_outcomes(passed=1, xfailed=1)
    result.stdout.fnmatch_lines(["*known failure: it leaks (W21)*"])
    project.makefile(".toml", known=table.format("fake/held"))
    project.run_race(select, "--omni-known-failures=known.toml").assert_outcomes(failed=2)
    project.makefile(".toml", known=table.format("fake/none"))
    result = project.run_race(select, "--omni-known-failures=known.toml")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*stale entry fake/none*"])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--omni-select=fake/hold"], "*Did you mean 'fake/held'*"),
        (["--omni-select=nothing/*"], "*no scenario matches 'nothing/[*]'*"),
    ],
)
def test_wrong_selection_is_one_message(project, options, text):
    result = project.run_race(*options)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines([text])
    assert "omni_verify_pytest.py" not in result.stdout.str()


def test_unusable_target_is_one_message(project):
    result = project.run_race("--omni-target=fake==9", "--omni-select=fake/held*")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["omni-verify: there is no release 9."])
    assert "omni_verify_pytest.py" not in result.stdout.str()


def test_junit_message_is_the_story(project):
    project.run_race("--omni-select=fake/violated", "--junitxml=junit.xml")
    failure = ET.parse(project.path / "junit.xml").getroot().find(".//failure")
    assert "I51 violated" in failure.get("message") and "--omni-replay=fake/violated" in failure.text


def test_xdist_gives_each_worker_its_own_zygote(project):
    pytest.importorskip("xdist")
    before = set(Path("/dev/shm").iterdir())
    result = project.run_race(
        "-p", "xdist", "-n2", "--omni-isolation=prefix", "--omni-select=fake/held*,fake/leaves,fake/violated"
    )
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["omni-verify: target fake*"])
    assert not [
        p
        for p in set(Path("/dev/shm").iterdir()) - before
        if p.name.startswith("ov") and p.name.endswith("R_0_0")
    ]


def test_timeout_ends_a_hang_and_leaves_nothing(project):
    pytest.importorskip("pytest_timeout")
    result = project.run_race(
        "-p", "pytest_timeout", "--timeout=3", "--omni-isolation=prefix", "--omni-select=fake/hang"
    )
    result.assert_outcomes(failed=1)
    assert "Timeout" in result.stdout.str()


def test_reruns_are_refused(project):
    project.makepyfile(
        reruns="""
        import pytest

        def pytest_addoption(parser):
            parser.addoption("--reruns", type=int, default=0)

        def pytest_configure(config):
            config.addinivalue_line("markers", "flaky: rerun it")
            config.pluginmanager.register(object(), "rerunfailures")
        """
    )
    result = project.run_race("-p", "reruns", "--reruns=2", "--omni-select=fake/held")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "must not be rerun" in result.stdout.str() + result.stderr.str()
    project.run_race("-p", "reruns", "--omni-select=fake/held").assert_outcomes(passed=1)


def test_shipped_module_runs_anywhere(project):
    result = project.run_plain(
        "--pyargs", "omni_verify.race", "--omni-target=fake", "--omni-select=fake/held"
    )
    result.assert_outcomes(passed=1)
