"""Every seeded bug against the catalogue and the tests: killed by whom, and who survives.

A kill counts only if a case fails with an invariant that the mutant must break, and if the same case holds on
the unchanged reference. So only cases that name one of these invariants are run.
"""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import msgspec

from omni_verify.campaign import case_job, wire
from omni_verify.campaign.check import chosen, default_jobs
from omni_verify.campaign.mutants import job as mutant_job
from omni_verify.campaign.mutants.guards import read_guards
from omni_verify.campaign.zygote import Zygote
from omni_verify.errors import UsageError
from omni_verify.faults import mutants as seeded
from omni_verify.faults.mutants import Mutant
from omni_verify.harness.scenario import Scenario
from omni_verify.settings import Settings
from omni_verify.verdict import Verdict

__all__ = ["SHORT", "Kill", "MutantRecord", "MutantsResult", "mutants"]

SHORT = Settings(gate_s=3.0, wait_s=4.0, case_s=30.0)
"""Bounds of a case: a mutant that hangs must not cost more than a few seconds."""
TEST_S = 25.0
"""Seconds for one test."""
TESTS_S = 120.0
"""Seconds for all tests that guard one mutant's invariants."""


class Kill(msgspec.Struct, frozen=True, kw_only=True):
    """A case that tells the mutant from the reference, and how."""

    case: str
    invariant: str
    reason: str


class MutantRecord(msgspec.Struct, kw_only=True):
    """What became of one mutant.

    Attributes:
        mutant: its description.
        kills: cases that failed with one of its invariants; the first one only, unless all were asked for.
        ran: cases that were run.
        problem: why the mutant could not be judged; empty when it could.
        duration_s: wall time.
    """

    mutant: Mutant
    kills: list[Kill] = []
    ran: int = 0
    problem: str = ""
    duration_s: float = 0.0

    @property
    def survived(self) -> bool:
        """Tell whether no case killed it although some case should."""
        return not self.kills and not self.mutant.equivalent


class MutantsResult(msgspec.Struct, kw_only=True):
    """The outcome of a run.

    Attributes:
        records: one for each mutant, in the order of the catalogue.
        unfit: cases that fail on the unchanged reference, with the reason; their kills do not count.
        idle: cases that were run and killed nothing; known only when all cases of each mutant were run.
        complete: every case that names a mutant's invariant was run, not only up to its first kill.
    """

    records: list[MutantRecord]
    unfit: dict[str, str] = {}
    idle: list[str] = []
    complete: bool = False
    duration_s: float = 0.0
    schema: str = "omni-verify/mutants/1"

    @property
    def survivors(self) -> list[MutantRecord]:
        """Mutants that live although they must not."""
        return [r for r in self.records if r.survived]


Progress = Callable[[MutantRecord], None]


def mutants(
    select: Sequence[str] = (),
    *,
    jobs: int | None = None,
    tests: Path | None = None,
    complete: bool = False,
    settings: Settings = SHORT,
    progress: Progress = lambda record: None,
) -> MutantsResult:
    """Run the selected mutants in parallel.

    Args:
        select: globs over mutant ids; none selects all.
        jobs: mutants at a time; twice the cores by default, since many cases wait for a bound.
        tests: folder of tests that guard invariants too; None for the catalogue alone.
        complete: run every case that names the mutant's invariants, not only up to the first kill.
        settings: bounds of a case.
        progress: called with each record when it is there, from any thread.

    Raises:
        UsageError: nothing is selected, or the tests' table is wrong.
        TargetUnusableError: the reference does not load.
    """
    began = time.monotonic()
    wanted = [
        m
        for i, m in seeded.catalogue().items()
        if not select or any(fnmatch.fnmatchcase(i, p) for p in select)
    ]
    if not wanted:
        raise UsageError(f"no mutant matches {', '.join(select)}. Ids are M1 to M68b, H.. and W...")
    guards = read_guards(tests) if tests is not None else {}
    with Zygote("reference", settings=settings, resolver="omni_verify.campaign.mutants.job:warm") as held:
        run = _Run(held, chosen(()), guards, settings, complete=complete)
        with ThreadPoolExecutor(jobs or 2 * default_jobs()) as pool:

            def judge(mutant: Mutant) -> MutantRecord:
                record = run.judge(mutant)
                progress(record)
                return record

            records = list(pool.map(judge, wanted))
    killers = {kill.case for record in records for kill in record.kills}
    return MutantsResult(
        records=records,
        unfit=dict(sorted(run.unfit.items())),
        idle=sorted(run.used - killers - set(run.unfit)) if complete else [],
        complete=complete,
        duration_s=round(time.monotonic() - began, 1),
    )


class _Run:
    """What all mutants of one run share."""

    def __init__(
        self,
        held: Zygote,
        scenarios: Sequence[Scenario],
        guards: dict[str, tuple[str, ...]],
        settings: Settings,
        *,
        complete: bool,
    ) -> None:
        self.held, self.settings, self.complete = held, settings, complete
        self.scenarios = list(scenarios)
        self.guards = guards
        self.used: set[str] = set()
        self.unfit: dict[str, str] = {}
        self._fit: set[str] = set()

    def judge(self, mutant: Mutant) -> MutantRecord:
        """Run the mutant against the cases that name one of its invariants."""
        began, record, ids = time.monotonic(), MutantRecord(mutant=mutant), set(mutant.breaks)
        for step in self._plan(record, ids):
            step()
            if record.kills and not self.complete:
                break
        record.duration_s = round(time.monotonic() - began, 1)
        return record

    def _plan(self, record: MutantRecord, ids: set[str]) -> Iterator[Callable[[], None]]:
        """Yield the cases that name one of the invariants, cheap ones first.

        A child imports the files of its tests, which costs more than most tests: so a file is one step.
        """
        files: dict[str, list[str]] = {}
        for node, guarded in self.guards.items():
            if ids & set(guarded):
                files.setdefault(node.partition("::")[0], []).append(node)
        small = [f for f in sorted(files) if "/quality/" in f]
        large = sorted(set(files) - set(small), key=lambda f: ("/integration/" in f, f))
        cases = [s for s in self.scenarios if ids & set(s.invariants)]
        for name in small:
            yield partial(self._judge_tests, record, files[name])
        for scenario in cases:
            if not scenario.slow:
                yield partial(self._judge_case, record, scenario)
        for name in large:
            yield partial(self._judge_tests, record, files[name])
        for scenario in cases:
            if scenario.slow:
                yield partial(self._judge_case, record, scenario)

    def _judge_case(self, record: MutantRecord, scenario: Scenario) -> None:
        record.ran += 1
        self.used.add(scenario.id)
        case = case_job.read(scenario, self._play(record.mutant.id, scenario))
        if "MutantStaleError" in case.stacks:
            record.problem = case.reason
        for finding in case.findings:
            if finding.invariant in record.mutant.breaks and self._holds_unchanged(scenario.id, scenario):
                reason = f"{finding.message}: {finding.found}" if finding.found else finding.message
                record.kills.append(Kill(case=scenario.id, invariant=finding.invariant, reason=reason))
                return

    def _judge_tests(self, record: MutantRecord, nodes: list[str]) -> None:
        record.ran += len(nodes)
        self.used |= set(nodes)
        runs, problem = self._tests(record.mutant.id, nodes, first=not self.complete)
        record.problem = record.problem or problem
        for test in runs:
            node = _base(test.node)
            named = [i for i in self.guards.get(node, ()) if i in record.mutant.breaks]
            if named and test.reason and not test.timed_out and self._holds_unchanged(node, None):
                record.kills.append(Kill(case=node, invariant=named[0], reason=test.reason))

    def _holds_unchanged(self, case: str, scenario: Scenario | None) -> bool:
        """Tell whether a case that failed holds on the unchanged reference; asked once for each case."""
        if case in self._fit or case in self.unfit:
            return case in self._fit
        if scenario is not None:
            control = case_job.read(scenario, self._play("", scenario))
            reason = "" if control.verdict is Verdict.HELD else f"{control.verdict}: {control.reason}"
        else:
            runs, problem = self._tests("", [case], first=True)
            reason = problem or next((r.reason for r in runs if r.reason), "")
        if reason:
            self.unfit[case] = reason
        else:
            self._fit.add(case)
        return not reason

    def _play(self, mutant_id: str, scenario: Scenario) -> wire.Outcome:
        arguments = case_job.params(scenario, self.settings) | {"mutant": mutant_id}
        return self.held.submit(
            mutant_job.PLAY, arguments, limit_s=self.settings.case_s, shm_options=scenario.shm_options
        ).result()

    def _tests(
        self, mutant_id: str, nodes: list[str], *, first: bool
    ) -> tuple[list[mutant_job.RanTest], str]:
        arguments: dict[str, object] = {
            "mutant": mutant_id,
            "nodes": nodes,
            "timeout_s": TEST_S,
            "first": first,
        }
        outcome = self.held.submit(mutant_job.TEST, arguments, limit_s=TESTS_S).result()
        if outcome.payload is None:
            how = outcome.error.strip().splitlines()[-1] if outcome.error else f"signal {outcome.signal}"
            return [], f"tests ended without an answer: {'time limit' if outcome.timed_out else how}"
        return msgspec.msgpack.decode(outcome.payload, type=list[mutant_job.RanTest]), ""


def _base(node: str) -> str:
    """Return a node id without its parameters."""
    return node.partition("[")[0]
