"""Known failures as data: which cases of which target are expected to be violated, and why.

A gate over known failures fails on every *change*: a new violation, a violation that went away, an
entry that names nothing, an entry past its date. Nothing here can turn a violated verdict into a
held one; the verdicts stay what they are and only the exit code follows the gate.
"""

from __future__ import annotations

import datetime as dt
import fnmatch
from collections.abc import Sequence
from pathlib import Path

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from omni_verify.campaign.result import GateProblem
from omni_verify.errors import UsageError
from omni_verify.harness.result import CaseResult
from omni_verify.targets.protocol import TargetInfo
from omni_verify.verdict import Verdict

__all__ = ["Expectations", "KnownFailure", "KnownFailures", "load", "shipped"]


class KnownFailure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of the file.

    Attributes:
        id: glob over scenario ids.
        target: name of the target, for example ``"vllm-omni"``.
        reason: why it is violated, in own words.
        link: public report, or the id of a weak spot.
        versions: specifiers (PEP 440); one of them must match; none means every version.
        expires: day from which the entry fails the gate.
    """

    id: str
    target: str
    reason: str
    link: str
    versions: tuple[str, ...] = ()
    expires: dt.date | None = None

    def concerns(self, info: TargetInfo) -> bool:
        """Tell whether it speaks about that target and version."""
        if self.target != info.name:
            return False
        if not self.versions:
            return True
        try:
            version = Version(info.version)
        except InvalidVersion:
            return False  # a checkout without a version is compared by entries for every version only
        return any(SpecifierSet(spec).contains(version, prereleases=True) for spec in self.versions)

    def covers(self, case_id: str) -> bool:
        """Tell whether its glob matches a scenario."""
        return fnmatch.fnmatchcase(case_id, self.id)


class _File(msgspec.Struct, forbid_unknown_fields=True):
    known_failure: tuple[KnownFailure, ...] = ()


class KnownFailures:
    """The entries of one file."""

    def __init__(self, entries: Sequence[KnownFailure]) -> None:
        self.entries = tuple(entries)

    def apply_to(self, info: TargetInfo) -> Expectations:
        """Restrict to one target, as of today."""
        return Expectations(self, info, dt.datetime.now(dt.UTC).date())


class Expectations:
    """What the known failures say about one target."""

    def __init__(self, known: KnownFailures, info: TargetInfo, today: dt.date) -> None:
        self._known, self._info, self._today = known, info, today
        self._mine = [e for e in known.entries if e.concerns(info)]

    def expected(self, case_id: str) -> Verdict:
        """Return the expected verdict of a scenario."""
        # an expectation, not a conclusion: `judge` alone concludes that a case held
        return Verdict.VIOLATED if self._entry(case_id) else Verdict.HELD

    def reason(self, case_id: str) -> str:
        """Return reason and link of the entry that covers a scenario, empty if none."""
        entry = self._entry(case_id)
        return f"{entry.reason} ({entry.link})" if entry else ""

    def problems(self, cases: Sequence[CaseResult], catalogue: Sequence[str]) -> tuple[GateProblem, ...]:
        """Return every disagreement, cases first.

        Args:
            cases: what ran, possibly a selection.
            catalogue: ids of all scenarios, for stale entries.
        """
        found = [p for case in cases if (p := self._compare(case)) is not None]
        stale = "the entry matches no scenario; correct or remove it"
        found += [
            GateProblem(kind="stale", id=entry.id, message=stale)
            for entry in self._known.entries
            if entry.target == self._info.name and not any(map(entry.covers, catalogue))
        ]
        for entry in self._mine:
            if entry.expires is not None and entry.expires <= self._today:
                text = f"the entry expired on {entry.expires}; look at it again ({entry.link})"
                found.append(GateProblem(kind="expired", id=entry.id, message=text))
        return tuple(found)

    def _entry(self, case_id: str) -> KnownFailure | None:
        return next((e for e in self._mine if e.covers(case_id)), None)

    def _compare(self, case: CaseResult) -> GateProblem | None:
        known = self._entry(case.id)
        if case.verdict is Verdict.INCONCLUSIVE:
            return GateProblem(kind="inconclusive", id=case.id, message=case.reason)
        if case.verdict is Verdict.VIOLATED and known is None:
            return GateProblem(kind="unexpected_violation", id=case.id, message=case.reason)
        if case.verdict is Verdict.HELD and known is not None:
            text = f"it held, but is listed as a known failure ({known.link}); remove the entry"
            return GateProblem(kind="unexpected_pass", id=case.id, message=text)
        return None


def load(path: Path) -> KnownFailures:
    """Read a file of known failures.

    Raises:
        UsageError: it cannot be read, or an entry is malformed.
    """
    try:
        file = msgspec.toml.decode(path.read_bytes(), type=_File)
        for entry in file.known_failure:
            for spec in entry.versions:
                SpecifierSet(spec)
    except OSError as error:
        raise UsageError(f"cannot read the known failures {str(path)!r}: {error.strerror}.") from None
    except (msgspec.MsgspecError, InvalidSpecifier, ValueError) as error:
        raise UsageError(
            f"the known failures {str(path)!r} are malformed: {error}. Expected tables [[known_failure]] "
            "with id, target, reason, link and optionally versions (list of specifiers), expires (date)."
        ) from None
    return KnownFailures(file.known_failure)


def shipped() -> KnownFailures:
    """Return the committed known failures of the real releases."""
    return load(Path(__file__).parent / "baselines" / "vllm-omni.toml")
