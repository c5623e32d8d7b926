"""From the reports of two ends to the result of their pair."""

from __future__ import annotations

import signal
from collections.abc import Sequence

import msgspec

from omni_verify.campaign import wire
from omni_verify.campaign.case_job import OUTSIDE
from omni_verify.campaign.pairs.worker import RECEIVER, SENDER, EndReport
from omni_verify.checks import attribute, run_common
from omni_verify.checks.liveness import check_failures
from omni_verify.checks.observation import Broken, Leftover, Observation
from omni_verify.harness.result import CaseResult, Residue
from omni_verify.verdict import Evidence, Finding, judge

__all__ = ["CASES", "Judge", "PairCase"]

CASES: dict[str, tuple[str, ...]] = {
    "stream": ("I28", "I14", "I12", "I13", "I51", "I53", "I23", "I39", "I37b"),
    "abort-mid-stream": ("I28", "I51", "I53", "I39", "I37b"),
    "payloads": ("I15", "I16", "I51", "I53", "I37b"),
}
"""Cases of each pair and the invariants that they judge."""
_COMPARED = "abort-mid-stream"
_PENDING = "_pending_keys"


class PairCase(msgspec.Struct, frozen=True):
    """One case of one ordered pair; sender and receiver are target specs."""

    name: str
    sender: str
    receiver: str

    @property
    def id(self) -> str:
        """Id of the case: ``pair/stream[reference->vllm-omni==0.30.0]``."""
        return f"pair/{self.name}[{self.sender}->{self.receiver}]"

    @property
    def own(self) -> bool:
        """Tell whether a target is paired with itself."""
        return self.sender == self.receiver

    @property
    def replay(self) -> str:
        """Command that runs exactly this case."""
        targets = " ".join(f"--target '{spec}'" for spec in dict.fromkeys((self.sender, self.receiver)))
        return f"omni-verify pairs {targets} --select '{self.id}'"


class _Faults(msgspec.Struct, frozen=True):
    """What was not as it should be after an abort, by whose account it is."""

    shared: frozenset[str] = frozenset()
    sender: frozenset[str] = frozenset()
    receiver: frozenset[str] = frozenset()


class Judge:
    """Judges cases; remembers what own pairs do, because a mixed pair is compared with them.

    A chunk that nobody read after an abort is reclaimed by its sender, so a mixed pair may leave what
    the sender leaves when it is paired with itself, and nothing else: aborts are judged by that
    comparison, streams and payloads by the contracts.
    """

    def __init__(self) -> None:
        self._own: dict[str, _Faults] = {}

    def needs(self, case: PairCase) -> list[PairCase]:
        """Own pairs that have to be played before a case can be judged."""
        if case.name != _COMPARED or case.own:
            return []
        return [
            PairCase(case.name, spec, spec) for spec in (case.sender, case.receiver) if spec not in self._own
        ]

    def result(self, case: PairCase, sender: wire.Outcome, receiver: wire.Outcome) -> CaseResult:
        """Judge one case from how its two processes ended."""
        reports = {SENDER: _report(sender), RECEIVER: _report(receiver)}
        outcomes = {SENDER: sender, RECEIVER: receiver}
        crashes = [f for role, end in outcomes.items() if (f := _crash(case, role, end)) is not None]
        present = [r for r in reports.values() if r is not None]
        evidence = _evidence(outcomes, reports)
        seen = _merge(present)
        broken = [b for r in present for b in r.broken]
        found = run_common(seen) if not evidence.cut else check_failures(seen)
        side: list[Broken] = []
        if case.name == _COMPARED and not evidence.cut:
            side, found = found, self._compare(case, seen, reports)
        findings, others = attribute([*broken, *found], CASES[case.name])
        findings = [*crashes, *findings]
        verdict, reason = judge(findings, evidence)
        closed = seen.closed or []
        return CaseResult(
            id=case.id,
            verdict=verdict,
            reason=reason,
            findings=findings,
            side_findings=[*others, *attribute([*side, *_tolerated(reports)], ())[1]],
            evidence=evidence,
            residue=Residue(
                segments=tuple(
                    n for n in closed if not n.endswith(".lock") and not n.startswith("omni_shm_")
                ),
                locks=tuple(n for n in closed if n.endswith(".lock")),
                fifos=tuple(n for n in closed if n.startswith("omni_shm_")),
            ),
            invariants=CASES[case.name],
            replay=case.replay,
            stacks="\n".join(r.stacks for r in present if r.stacks)
            or ("" if not evidence.cut else _tail(outcomes)),
            log=[
                f"{role}: {line}" for role, end in outcomes.items() for line in end.output.splitlines()[-30:]
            ],
            duration_s=max(sender.duration_s, receiver.duration_s),
        )

    def _compare(
        self, case: PairCase, seen: Observation, reports: dict[str, EndReport | None]
    ) -> list[Broken]:
        """What a mixed pair does worse than each end paired with itself; an own pair is remembered."""
        faults = _faults(seen, reports)
        if case.own:
            self._own[case.sender] = faults
            return []
        sender, receiver = (self._own.get(spec, _Faults()) for spec in (case.sender, case.receiver))
        worse = {
            "leaves under /dev/shm": (faults.shared, sender.shared, receiver.shared),
            "keeps on the sender": (faults.sender, sender.sender, frozenset()),
            "keeps on the receiver": (faults.receiver, receiver.receiver, frozenset()),
        }
        return [
            Broken(
                family=("I51",) if "shm" in what else ("I39",),
                message=f"after an abort the pair {what} more than {case.sender} paired with itself"
                + (f"; {case.receiver} paired with itself does too" if new <= theirs else ""),
                expected=", ".join(sorted(allowed)) or "nothing",
                found=", ".join(sorted(new)),
                key=min(new),
            )
            for what, (now, allowed, theirs) in worse.items()
            if (new := now - allowed)
        ]


def _report(outcome: wire.Outcome) -> EndReport | None:
    if outcome.payload is None or outcome.timed_out:
        return None
    return msgspec.msgpack.decode(outcome.payload, type=EndReport)


def _merge(reports: Sequence[EndReport]) -> Observation:
    """Join what both ends saw; only the receiver lists /dev/shm, when both are at rest."""
    seen = Observation()
    for report in reports:
        seen.sent += report.seen.sent
        seen.delivered += report.seen.delivered
        seen.leftovers = [*(seen.leftovers or []), *_judged(report)]
        seen.dead_threads = [*(seen.dead_threads or []), *(report.seen.dead_threads or [])]
        seen.failures |= report.seen.failures
        seen.quiet = report.seen.quiet if report.seen.quiet is not None else seen.quiet
        seen.closed = report.seen.closed if report.seen.closed is not None else seen.closed
    return seen


def _judged(report: EndReport) -> list[Leftover]:
    """Bookkeeping that this end's release promises not to keep.

    A release without `reap_consumed` never forgets a key that another process read (I23, fixed by
    vllm-omni#8082): that is its own defect, which `check` judges, and not one of the pair.
    """
    return [x for x in report.seen.leftovers or [] if report.reaps or x.container != _PENDING]


def _tolerated(reports: dict[str, EndReport | None]) -> list[Broken]:
    """Report, without judging it, what `_judged` leaves out."""
    broken = []
    for role, report in reports.items():
        if report is None:
            continue
        kept = [x for x in report.seen.leftovers or [] if x not in _judged(report)]
        if kept:
            broken.append(
                Broken(
                    family=("I23",),
                    message=f"the {role}'s release never forgets keys that another process consumed",
                    expected="no entry of a consumed key",
                    found=f"{len(kept)} keys, {kept[0].entry} first",
                    key=f"{kept[0].owner}.{_PENDING}",
                )
            )
    return broken


def _faults(seen: Observation, reports: dict[str, EndReport | None]) -> _Faults:
    def kept(role: str) -> frozenset[str]:
        report = reports[role]
        entries = report.seen.leftovers or [] if report else []
        threads = report.seen.dead_threads or [] if report else []
        failures = report.seen.failures if report else {}
        return frozenset(
            [f"{x.container}: {x.entry}" for x in entries]
            + [f"dead thread {t}" for t in threads]
            + [f"{actor} raised {text}" for actor, text in failures.items()]
        )

    shared = frozenset([*(seen.quiet or []), *(f"{n} (closed)" for n in seen.closed or [])])
    return _Faults(shared=shared, sender=kept(SENDER), receiver=kept(RECEIVER))


def _evidence(outcomes: dict[str, wire.Outcome], reports: dict[str, EndReport | None]) -> Evidence:
    present = [r for r in reports.values() if r is not None]
    cuts = []
    for role, end in outcomes.items():
        report = reports[role]
        if end.timed_out:
            cuts.append(
                f"the {role} was ended from outside after {end.duration_s:.0f} s (OMNI_VERIFY_CASE_S)"
            )
        elif end.error:
            cuts.append(f"the {role}'s runner failed: {end.error.strip().splitlines()[-1]}")
        elif report is None and end.signal in OUTSIDE:
            cuts.append(f"the {role} was ended from outside by {signal.Signals(end.signal).name}")
        elif report is None:
            cuts.append(f"the {role} gave no report")
        elif report.cut:
            cuts.append(f"{role}: {report.cut}")
    return Evidence(
        actors=(SENDER, RECEIVER, *(a for r in present for a in r.actors if a not in (SENDER, RECEIVER))),
        finished=tuple(a for r in present for a in r.finished),
        checked=sum(r.checked for r in present),
        cut="; ".join(cuts),
    )


def _crash(case: PairCase, role: str, end: wire.Outcome) -> Finding | None:
    """A process that ended without an answer and that nobody outside ended is a finding of its target."""
    if end.payload is not None or end.error or end.timed_out or end.signal in OUTSIDE:
        return None
    how = f"killed by {signal.Signals(end.signal).name}" if end.signal else f"ended with status {end.status}"
    spec = case.sender if role == SENDER else case.receiver
    return Finding(
        invariant="I37b",
        message=f"the process of the {role}, {spec}, was {how}",
        expected="an error that the caller can handle; the process lives",
        found=how,
        key=role,
        evidence={"signal": end.signal, "status": end.status},
    )


def _tail(outcomes: dict[str, wire.Outcome]) -> str:
    return "\n".join(f"{role}:\n{end.output}" for role, end in outcomes.items() if end.output)
