"""What a soak knows about its requests: who is in flight, how each ended, and what was broken."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import msgspec

from omni_verify.audit.sampler_latency import Histogram
from omni_verify.checks.observation import Broken
from omni_verify.faults.nemeses import Harm, Strike
from omni_verify.harness.soak.messages import Over
from omni_verify.harness.soak.plan import Plan
from omni_verify.verdict import Finding

__all__ = ["LATENCIES", "Counts", "Entry", "Findings", "Ledger"]

LATENCIES = ("first_audio", "inter_chunk", "end_to_end")
SILENT_S = 3.0
"""Seconds after which a client gives up that a nemesis has cut off without anybody's knowing."""
_EXAMPLES = 8
_WORSE = (Harm.NONE, Harm.STREAM, Harm.SILENT)


class Counts(msgspec.Struct, kw_only=True):
    """Requests so far, over the whole soak.

    Attributes:
        started, completed, aborted, failed: as in `audit.series.Sample`.
        chunks: delivered by the last stage.
        unread: chunks that leavers left unread, by their plans; exact for aborts at rest.
        kinds: by kind, those that are over.
        strikes: by nemesis.
        deaths, restarts: of stages.
        judged: streams whose frames were judged.
    """

    started: int = 0
    completed: int = 0
    aborted: int = 0
    failed: int = 0
    chunks: int = 0
    unread: int = 0
    kinds: dict[str, int] = {}
    strikes: dict[str, int] = {}
    deaths: int = 0
    restarts: int = 0
    judged: int = 0


class Entry(msgspec.Struct, kw_only=True):
    """A request in flight.

    Attributes:
        plan: what it does.
        over: what each part said of its end.
        harm: the worst that nemeses did to it.
        told: at this moment its parts were told to end it at once; 0 otherwise.
        leaves: its objects may outlive it.
        reported: its failure was reported.
    """

    plan: Plan
    over: dict[int, Over] = {}
    harm: Harm = Harm.NONE
    told: float = 0.0
    leaves: bool = False
    reported: bool = False


class Findings:
    """Findings by invariant and key; a repeated one is counted, with its first examples."""

    def __init__(self, before: Iterable[Finding] = ()) -> None:
        self._found: dict[tuple[str, str], Finding] = {f.identity: f for f in before}

    def add(self, finding: Finding, example: str = "") -> None:
        """Add one, or count it."""
        old = self._found.get(finding.identity)
        evidence = dict((old or finding).evidence)
        examples = evidence.get("examples", [])
        assert isinstance(examples, list)
        if example and len(examples) < _EXAMPLES:
            evidence["examples"] = [*examples, example]
        times = evidence.get("times", 0)
        evidence["times"] = (times if isinstance(times, int) else 0) + 1
        self._found[finding.identity] = msgspec.structs.replace(old or finding, evidence=evidence)

    def put(self, finding: Finding) -> None:
        """Replace the one of the same identity: for findings that grow."""
        self._found[finding.identity] = finding

    def all(self) -> list[Finding]:
        """Every finding, in the order in which it first appeared."""
        return list(self._found.values())


class Ledger:
    """Requests in flight and what they showed."""

    def __init__(self, parts: Sequence[int], counts: Counts | None = None) -> None:
        self.parts = tuple(parts)
        self.counts = counts or Counts()
        self.flying: dict[int, Entry] = {}
        self._ended: dict[int, Entry] = {}
        self.excused: set[str] = set()
        self.streams = Findings()
        self.total = {name: Histogram() for name in LATENCIES}
        self.recent = {name: Histogram() for name in LATENCIES}

    def submit(self, plan: Plan) -> None:
        """Note that a request starts; a second generation of it is the same request."""
        if plan.generation == 1:
            self.counts.started += 1
        self.flying[plan.index] = Entry(plan=plan)

    def over(self, part: int, over: Over) -> Entry | None:
        """Note that a part is done with a request; return its entry when all are."""
        entry = self.flying.get(over.index)
        if entry is None or over.generation != entry.plan.generation:
            return None
        entry.over[part] = over
        if part == self.parts[-1]:
            self._measure(over)
        self.counts.judged += part == self.parts[-1] or part != self.parts[0]
        return entry if len(entry.over) == len(self.parts) else None

    def close(self, entry: Entry) -> bool:
        """Take a request out that is over everywhere; tell whether its id is used again now."""
        plan, counts = entry.plan, self.counts
        del self.flying[plan.index]
        self._ended[plan.index] = entry
        statuses = {over.status for over in entry.over.values()}
        failed = "failed" in statuses or bool(entry.told)
        if not failed and plan.kind == "reuse" and plan.generation == 1:
            return True
        counts.kinds[plan.kind] = counts.kinds.get(plan.kind, 0) + 1
        if failed:
            counts.failed += 1
        elif plan.leaves:
            counts.aborted += 1
            counts.unread += plan.unread
        else:
            counts.completed += 1
        return False

    def settle(self, index: int) -> None:
        """Judge a request of which nothing is left anywhere: whatever struck it is known by now.

        A producer is done when it has handed its terminal over, and its puts may still be struck after that.
        """
        entry = self._ended.pop(index, None)
        if entry is not None:
            self._judge(entry)

    def strike(self, strike: Strike) -> None:
        """Note a strike of a nemesis, and whom it excuses."""
        self.counts.strikes[strike.nemesis] = self.counts.strikes.get(strike.nemesis, 0) + 1
        for entry in (*self.flying.values(), *self._ended.values()):
            if strike.concerns(entry.plan.label):
                self.excuse(entry, strike.harm, leaves=strike.leaves)
        if strike.leaves and strike.key:
            self.excused.add(strike.key.rsplit("_", 2)[0])

    def excuse_all(self) -> None:
        """Note that a part was lost: with it went the news of strikes, and what it held."""
        for entry in (*self.flying.values(), *self._ended.values()):
            self.excuse(entry, Harm.SILENT, leaves=True)

    def excuse(self, entry: Entry, harm: Harm, *, leaves: bool) -> None:
        """Note harm that comes from outside."""
        entry.harm = max(entry.harm, harm, key=_WORSE.index)
        entry.leaves |= leaves

    def hanging(self, limit_s: float) -> list[Entry]:
        """Requests that are older than the limit and were not told to end, or were told so long ago.

        Where a nemesis made a loss that nobody inside can know, the client's patience is shorter.
        """
        now = time.monotonic()
        return [
            e
            for e in self.flying.values()
            if now - (e.told or e.plan.submitted)
            > (min(limit_s, SILENT_S) if e.harm is Harm.SILENT and not e.told else limit_s)
        ]

    def hangs(self, entry: Entry) -> None:
        """Note that a request hangs; silence is a finding unless a nemesis made it."""
        if entry.harm is Harm.SILENT or entry.told:
            return
        missing = [f"stage{part}" for part in self.parts if part not in entry.over]
        self.streams.add(
            Finding(
                invariant="I36",
                message="a request neither ends nor fails: a loss was not surfaced",
                expected="its terminal, or an error",
                found=f"silence at {', '.join(missing)}",
                key=f"hang/{entry.plan.kind}",
            ),
            f"{entry.plan.label} ({entry.plan.kind}, generation {entry.plan.generation})",
        )

    def raised(self, text: str) -> None:
        """Note an exception that came out of a verb of the target."""
        self.streams.add(
            Finding(
                invariant="I37b",
                message="a verb of the target raised out of a legal call",
                expected="no exception",
                found=text,
                key=text.split(":")[0],
            ),
            text,
        )

    def recent_figures(self) -> dict[str, float]:
        """Latencies since the last call, as figures."""
        values: dict[str, float] = {}
        for name, histogram in self.recent.items():
            values |= histogram.figures(name)
        self.recent = {name: Histogram() for name in LATENCIES}
        return values

    def _judge(self, entry: Entry) -> None:
        """Judge a request by what all parts said: a strike may become known after the failure it made."""
        if entry.harm is not Harm.NONE and entry.leaves:
            self.excused.add(entry.plan.label)
        if entry.harm is Harm.SILENT:
            return
        for part, over in entry.over.items():
            if over.status == "failed" and entry.harm is Harm.NONE:
                self._failed(entry, part, over)
            for broken in over.broken:
                self._broken(entry, part, broken)

    def _measure(self, over: Over) -> None:
        self.counts.chunks += over.chunks
        measured = {
            "first_audio": [over.first] if over.first else [],
            "inter_chunk": over.gaps,
            "end_to_end": [over.total] if over.total else [],
        }
        for name, values in measured.items():
            for value in values:
                self.total[name].record(value)
                self.recent[name].record(value)

    def _failed(self, entry: Entry, part: int, over: Over) -> None:
        if entry.reported:
            return
        entry.reported = True
        self.streams.add(
            Finding(
                invariant="I36",
                message="a request failed although nothing struck it",
                expected="a whole stream",
                found=over.error,
                key=f"failed/{entry.plan.kind}",
            ),
            f"{entry.plan.label} at stage{part}: {over.error}",
        )

    def _broken(self, entry: Entry, part: int, broken: Broken) -> None:
        self.streams.add(
            Finding(
                invariant=broken.family[0],
                message=_general(broken.message),
                expected=broken.expected,
                found=broken.found,
                key=f"stage{part}/{entry.plan.kind}",
                evidence=broken.evidence,
            ),
            f"{broken.message}: {broken.found}",
        )


def _general(message: str) -> str:
    """Take the request out of a message: thousands of them show the same defect."""
    _, found, rest = message.partition(") ")
    return f"a stream {rest}" if found else message
