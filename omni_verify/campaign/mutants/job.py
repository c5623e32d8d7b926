"""The jobs of the mutants campaign: one scenario or some tests, in a child that applies a mutant first."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import tempfile
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import msgspec

from omni_verify.campaign import case_job, wire
from omni_verify.faults import mutants
from omni_verify.faults.mutants.mutant import lines_of
from omni_verify.targets.protocol import Target
from omni_verify.targets.registry import resolve

if TYPE_CHECKING:
    import pytest

__all__ = ["PLAY", "TEST", "RanTest", "play", "run_tests", "warm"]

PLAY = "omni_verify.campaign.mutants.job:play"
"""Name of `play` for `Zygote.submit`."""
TEST = "omni_verify.campaign.mutants.job:run_tests"
"""Name of `run_tests` for `Zygote.submit`."""

_OPTIONS = (
    *("-q", "--tb=short", "-p", "no:cacheprovider"),
    *("-p", "no:threadexception"),  # a thread that dies is judged by the test, and is no error of its own
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)


class RanTest(msgspec.Struct, frozen=True):
    """How one test went; `reason` is the first line of a failure, which is no evidence if it timed out."""

    node: str
    duration_s: float
    reason: str = ""
    timed_out: bool = False


def warm(spec: str, loader: str = "auto") -> Target:
    """Resolve the reference and import what the jobs would import again and again."""
    target = resolve(spec, loader=loader)
    import omni_verify.pipeline as pipeline

    for module in pkgutil.walk_packages(pipeline.__path__, f"{pipeline.__name__}."):
        lines_of(str(importlib.import_module(module.name).__file__))
    with contextlib.suppress(ImportError):  # without the test tools only the catalogue runs
        importlib.import_module("pytest")
        for plugin in entry_points(group="pytest11"):
            plugin.load()
    return target


def play(target: Target, arguments: dict[str, Any], context: wire.JobContext) -> bytes:
    """Play one scenario against the mutant; as `case_job.run`."""
    if arguments["mutant"]:
        mutants.apply(arguments["mutant"])
    return case_job.run(target, arguments, context)


def run_tests(target: Target, arguments: dict[str, Any], context: wire.JobContext) -> bytes:
    """Run tests by node id against the mutant; return the encoded list of `RanTest`.

    Args:
        target: the loaded reference; the tests import what they need.
        arguments: ``mutant``, ``nodes`` (relative to the working directory), ``timeout_s`` for one test,
            ``first``: stop at the first failure.
        context: unused; the process is in its own namespace.

    Raises:
        RuntimeError: pytest could not collect the tests.
    """
    import pytest

    if arguments["mutant"]:
        mutants.apply(arguments["mutant"])
    recorder = _Recorder()
    options = [*_OPTIONS, "-o", f"timeout={arguments['timeout_s']:g}"]
    options += ["-x"] if arguments["first"] else []
    with _own_examples():
        code = pytest.main([*options, *arguments["nodes"]], plugins=[recorder])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) or recorder.broken:
        raise RuntimeError(f"pytest ended with {code!r}: {recorder.broken or 'see the output'}")
    return msgspec.msgpack.encode(recorder.runs)


class _Recorder:
    """Collects results, and makes property tests quick and repeatable."""

    def __init__(self) -> None:
        self.runs: list[RanTest] = []
        self.broken = ""

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Draw the same examples every time, and do not shrink: the failure is all that counts."""
        for item in items:
            function = getattr(item, "obj", None)
            settings = getattr(function, "_hypothesis_internal_use_settings", None)
            if settings is not None:
                from hypothesis import Phase
                from hypothesis import settings as make

                quick = make(
                    settings, phases=(Phase.explicit, Phase.generate), derandomize=True, database=None
                )
                function = getattr(function, "__func__", function)
                function._hypothesis_internal_use_settings = quick  # type: ignore[union-attr]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a module that does not import."""
        if report.failed:
            self.broken = str(report.longrepr)[-500:]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how a test went; a failure of set-up or tear-down is one of the test."""
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            reason = str(getattr(crash, "message", report.longrepr)).strip().split("\n")[0][:300]
            timed_out = reason.startswith("Failed: Timeout")
            self.runs.append(RanTest(report.nodeid, report.duration, reason or "failed", timed_out))
        elif report.when == "call":
            self.runs.append(RanTest(report.nodeid, report.duration))


@contextlib.contextmanager
def _own_examples() -> Iterator[None]:
    """Keep hypothesis's files out of the working directory."""
    with tempfile.TemporaryDirectory(prefix="omni-verify-") as folder:
        with contextlib.suppress(ImportError):
            configuration = importlib.import_module("hypothesis.configuration")
            configuration.set_hypothesis_home_dir(folder)
        yield
