"""pytest plugin: the catalogue as tests, against any target.

A top-level module, and nothing but the standard library and pytest is imported here: pytest loads
it in every run of every project that has omni-verify installed.

Each setting has three spellings; the first one given wins: the option (``--omni-target``), the
environment (``OMNI_VERIFY_TARGET``), the ini file (``omni_target``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from omni_verify.campaign import Zygote
    from omni_verify.campaign.known_failures import Expectations
    from omni_verify.harness.result import CaseResult
    from omni_verify.harness.scenario import Scenario

__all__ = ["OmniCase"]

FIXTURE = "omni_case"
TOKEN_PREFIX = "ov1."


class _Setting(NamedTuple):
    name: str
    help: str
    metavar: str
    default: str = ""


SETTINGS = (
    _Setting(
        "target",
        "what the race tests check: reference, vllm-omni==VERSION, vllm-omni@PATH, ...",
        "TARGET",
        "reference",
    ),
    _Setting("select", "globs over scenario ids, separated by blanks or commas", "GLOBS"),
    _Setting("loader", "how vllm-omni is imported: auto, isolated or native", "LOADER", "auto"),
    _Setting("isolation", "auto, mount (private /dev/shm) or prefix", "MODE", "auto"),
    _Setting("known_failures", "TOML file of expected violations; every change fails", "FILE"),
    _Setting("replay", "run exactly one case again: the id or token that a failure printed", "TOKEN"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register options and ini keys."""
    group = parser.getgroup("omni-verify", "omni-verify: executable contracts for connectors")
    for setting in SETTINGS:
        flag = f"--omni-{setting.name.replace('_', '-')}"
        group.addoption(
            flag, dest=f"omni_{setting.name}", metavar=setting.metavar, default=None, help=setting.help
        )
        parser.addini(f"omni_{setting.name}", f"{setting.help} (see {flag})", default="")
    group.addoption(
        "--omni-allow-inconclusive",
        action="store_true",
        default=False,
        help="skip instead of fail when the evidence of a case does not suffice",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", "race: runs a scenario of the omni-verify catalogue; never rerun it")


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say in one line what is tested; silent in projects that do not use the plugin."""
    used = any(_given(config, s.name) for s in SETTINGS) or "race" in (config.option.markexpr or "")
    if not used and not any("omni_verify.race" in str(arg) for arg in config.args):
        return None
    from omni_verify.campaign import isolation

    spec = _value(config, "target")
    try:
        mode, _ = isolation.choose(_value(config, "isolation"))
    except Exception as error:  # told again, as the error that it is, when a case needs it
        mode = str(error)
    where = "private /dev/shm" if mode == "mount" else mode
    parts = [f"target {_described(spec)}", f"loader {_value(config, 'loader')}", f"isolation {where}"]
    names = ("select", "known_failures", "replay")
    parts += [f"{name.replace('_', ' ')} {_value(config, name)}" for name in names if _value(config, name)]
    return f"omni-verify: {' · '.join(parts)}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each selected scenario."""
    if FIXTURE not in metafunc.fixturenames:
        return
    scenarios = _selected(metafunc.config)
    metafunc.parametrize(FIXTURE, scenarios, indirect=True, ids=[s.id for s in scenarios])


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what runs a scenario, before ``-m`` selects."""
    if FIXTURE in getattr(item, "fixturenames", ()):
        item.add_marker("race")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse reruns: a race that is rerun until it passes has told nothing."""
    if not config.pluginmanager.hasplugin("rerunfailures"):
        return
    everywhere = bool(getattr(config.option, "reruns", None))
    for item in items:
        if item.get_closest_marker("race") and (everywhere or item.get_closest_marker("flaky")):
            raise pytest.UsageError(
                f"{item.nodeid}: race tests must not be rerun (pytest-rerunfailures is active on it). "
                "A verdict that changes between runs is a finding. Run them with -p no:rerunfailures."
            )


class OmniCase:
    """One scenario against the target of this session."""

    def __init__(
        self,
        scenario: Scenario,
        zygote: Zygote,
        known: Expectations | None,
        *,
        allow_inconclusive: bool,
        token: str = "",
    ) -> None:
        self.scenario = scenario
        self._zygote, self._known, self._allow = zygote, known, allow_inconclusive
        self.token = token

    def run(self) -> CaseResult:
        """Run it once and return the result; judges nothing."""
        return self._zygote.run(self.scenario.id)

    def verify(self) -> None:
        """Run it; pass when it held, fail with the story when it is violated or inconclusive.

        Skips when the scenario does not apply. A known failure is an expected failure, and one
        that holds fails.
        """
        __tracebackhide__ = True
        if self.token:
            self._replay()
            return
        from omni_verify.report import story
        from omni_verify.verdict import Verdict

        case = self.run()
        expected = self._known.expected(case.id) if self._known else None
        if case.verdict is Verdict.NOT_APPLICABLE:
            pytest.skip(case.reason)
        if case.verdict is Verdict.HELD and expected is not Verdict.VIOLATED:
            return
        case.replay = f"{case.replay}   (pytest: --omni-target='{self._zygote.spec}' --omni-replay={case.id})"
        text = "\n".join(story(case, self._zygote.info))
        if case.verdict is Verdict.VIOLATED and expected is Verdict.VIOLATED and self._known:
            pytest.xfail(f"known failure: {self._known.reason(case.id)}")
        if case.verdict is Verdict.INCONCLUSIVE and self._allow:
            pytest.skip(f"inconclusive: {case.reason}")
        if case.verdict is Verdict.HELD and self._known:
            text = f"unexpected pass: it held, but is listed: {self._known.reason(case.id)}"
        pytest.fail(text, pytrace=False)

    def _replay(self) -> None:
        """Follow a recorded schedule; fails unless the program follows it without the failure."""
        __tracebackhide__ = True
        from omni_verify.campaign.explore import replay
        from omni_verify.report.exploration import replay_lines

        report = replay.replay_in(self._zygote, replay.locate(self.token, self._zygote.spec))
        if report.exit_code:
            pytest.fail("\n".join(replay_lines(report)), pytrace=False)


@pytest.fixture(scope="session")
def omni_zygote(request: pytest.FixtureRequest) -> Iterator[Zygote]:
    """The process that holds the target, one for each pytest process (each xdist worker)."""
    from omni_verify.campaign import Zygote
    from omni_verify.errors import OmniVerifyError

    config = request.config
    zygote = Zygote(_value(config, "target"), _value(config, "loader"), isolation=_value(config, "isolation"))
    try:
        zygote.start()
    except OmniVerifyError as error:
        pytest.fail(f"omni-verify: {error}", pytrace=False)
    try:
        yield zygote
    finally:
        zygote.close()


@pytest.fixture(scope="session")
def omni_expectations(request: pytest.FixtureRequest, omni_zygote: Zygote) -> Expectations | None:
    """Known failures of the target, None without a file; fails on stale and expired entries."""
    from omni_verify.campaign import known_failures
    from omni_verify.errors import OmniVerifyError
    from omni_verify.harness.scenario import catalogue

    where = _value(request.config, "known_failures")
    if not where:
        return None
    try:
        known = known_failures.load(request.config.rootpath / Path(where)).apply_to(omni_zygote.info)
    except OmniVerifyError as error:
        pytest.fail(f"omni-verify: {error}", pytrace=False)
    problems = known.problems([], list(catalogue()))
    if problems:
        pytest.fail("; ".join(f"{p.kind} entry {p.id}: {p.message}" for p in problems), pytrace=False)
    return known


@pytest.fixture
def omni_case(
    request: pytest.FixtureRequest, omni_zygote: Zygote, omni_expectations: Expectations | None
) -> OmniCase:
    """One selected scenario; ``omni_case.verify()`` is a whole test."""
    allow = bool(request.config.option.omni_allow_inconclusive)
    replay = _value(request.config, "replay")
    return OmniCase(
        request.param,
        omni_zygote,
        omni_expectations,
        allow_inconclusive=allow,
        token=replay if replay.startswith(TOKEN_PREFIX) else "",
    )


def _selected(config: pytest.Config) -> list[Scenario]:
    from omni_verify.campaign import chosen
    from omni_verify.errors import OmniVerifyError

    replay = _value(config, "replay")
    if replay.startswith(TOKEN_PREFIX):
        return [_recorded(config, replay)]
    patterns = [replay] if replay else _value(config, "select").replace(",", " ").split()
    try:
        return chosen(patterns)
    except OmniVerifyError as error:
        raise pytest.Collector.CollectError(f"omni-verify: {error}") from None


def _recorded(config: pytest.Config, token: str) -> Scenario:
    """The scenario that a schedule was recorded on."""
    from omni_verify.campaign.explore import replay
    from omni_verify.errors import OmniVerifyError
    from omni_verify.harness.scenario import get

    try:
        return get(replay.locate(token, _given(config, "target") or None).program)
    except OmniVerifyError as error:
        raise pytest.Collector.CollectError(f"omni-verify: {error}") from None


def _given(config: pytest.Config, name: str) -> str:
    option: Any = config.getoption(f"omni_{name}")
    if option is not None:
        return str(option)
    return os.environ.get(f"OMNI_VERIFY_{name.upper()}", "") or str(config.getini(f"omni_{name}"))


def _value(config: pytest.Config, name: str) -> str:
    return _given(config, name) or next(s.default for s in SETTINGS if s.name == name)


def _described(spec: str) -> str:
    """Target with the version that is known without loading it."""
    try:
        if spec == "vllm-omni":
            return f"vllm-omni {metadata.version('vllm-omni')} (installed)"
        if spec.partition("@")[0] == "reference":
            return f"{spec} {metadata.version('omni-verify')}"
    except metadata.PackageNotFoundError:
        return spec
    return spec
