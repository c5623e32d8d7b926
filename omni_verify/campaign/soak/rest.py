"""Quiescent points of a soak: everything ends, every stage rests, and nothing may be left (I51)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from omni_verify.audit.shm import Listing
from omni_verify.campaign.soak.record import Point
from omni_verify.harness.soak.messages import Quiet
from omni_verify.verdict import Finding

if TYPE_CHECKING:
    from omni_verify.campaign.soak.load import Soak

__all__ = ["REST_S", "Rest"]

REST_S = 60.0
"""Seconds that a system gets to come to rest, beyond the time after which a request hangs."""
_WAIT_S = 0.1
_SHOWN = 8


class Rest:
    """Brings a soak to rest and looks at what is left.

    Attributes:
        quiet: what each part said at this point.
    """

    def __init__(self, soak: Soak) -> None:
        self._soak = soak
        self.quiet: dict[int, Quiet] = {}
        self._number = 0

    def quiesce(self) -> None:
        """Reach a quiescent point and judge it; a system that does not come to rest is a finding."""
        soak = self._soak
        if soak.lost:
            return
        soak.faults.pause()
        began = time.monotonic()
        is_drained = soak.requests.drain(2 * soak.options.request_s + REST_S)
        soak.drained_s += time.monotonic() - began
        if not is_drained or not self._settle():
            if not soak.lost:
                silent = sorted(set(soak.system.parts) - set(self.quiet))
                soak.stages.add(
                    Finding(
                        invariant="I37b",
                        message="the system does not come to rest",
                        expected=f"rest within {REST_S:g} s after the last request",
                        found=f"requests in flight: {len(soak.ledger.flying)}; silent stages: {silent}",
                        key="no-rest",
                    ),
                    f"after {soak.ledger.counts.started} requests",
                )
            return
        for label in sorted(soak.ledger.excused):
            soak.system.sweep(label)
        if soak.ledger.counts.deaths:
            soak.system.sweep_journals()
        excused, soak.ledger.excused = soak.ledger.excused, set()
        listing = soak.system.shm()
        self._judge(listing, excused)
        soak.sample(quiescent=True)
        soak.faults.resume()

    def _settle(self) -> bool:
        """Ask every part to rest and wait until all do; a part that ends meanwhile is asked again."""
        soak, end = self._soak, time.monotonic() + REST_S
        self._ask()
        up = soak.faults.starts
        while len(self.quiet) < len(soak.system.parts):
            if time.monotonic() > end or soak.lost:
                return False
            soak.pump(_WAIT_S, quiescent=None)
            if soak.faults.starts != up and soak.faults.is_up():
                up = soak.faults.starts
                self._ask()
        return True

    def _ask(self) -> None:
        self._number += 1
        self.quiet.clear()
        self._soak.system.quiesce(self._number)

    def _judge(self, listing: Listing, excused: set[str]) -> None:
        soak, counts = self._soak, self._soak.ledger.counts
        segments, locks = listing.select("segment"), listing.select("lock")
        entries = 0
        for part, quiet in self.quiet.items():
            entries += sum(quiet.counts.values())
            self._judge_state(part, quiet, excused)
            for name in quiet.dead:
                soak.stages.add(
                    Finding(
                        invariant="I37b",
                        message=f"thread {name} of stage{part} has died",
                        expected="it contains every exception",
                        found="not alive at a quiescent point",
                        key=f"stage{part}.{name}",
                    )
                )
        if segments or locks:
            names = [e.name.replace(listing.prefix, "", 1) for e in (*segments, *locks)]
            self._grow(
                Finding(
                    invariant="I51",
                    message="shared memory outlives every request that could own it",
                    expected="no segment and no lock file of the run at a quiescent point",
                    found=f"{len(segments)} segments ({sum(e.size for e in segments):,} bytes) and "
                    f"{len(locks)} lock files after {counts.started:,} requests, "
                    f"{counts.aborted:,} of them left",
                    key="shm",
                    evidence={"names": names[:_SHOWN]},
                )
            )
        fifos, allowed = len(listing.select("fifo")), len(soak.system.parts) - 1
        if fifos > allowed:
            self._grow(
                Finding(
                    invariant="I51",
                    message="arrival FIFOs outlive their receivers",
                    expected="one a receiving stage",
                    found=f"{fifos} FIFOs",
                    key="fifos",
                )
            )
        if listing.foreign and soak.system.isolation == "mount":
            self._grow(
                Finding(
                    invariant="I51",
                    message="files of no known kind lie in shared memory",
                    expected="names of the key grammar only",
                    found=f"{len(listing.foreign)} files",
                    key="foreign",
                    evidence={"names": list(listing.foreign[:_SHOWN])},
                )
            )
        soak.points.append(
            Point(
                started=counts.started,
                aborted=counts.aborted,
                segments=len(segments),
                locks=len(locks),
                bytes=sum(e.size for e in segments),
                entries=entries,
            )
        )

    def _judge_state(self, part: int, quiet: Quiet, excused: set[str]) -> None:
        for container, count in quiet.counts.items():
            shown = [e for e in quiet.entries[container] if not any(label in e for label in excused)]
            if not shown:
                continue
            self._grow(
                Finding(
                    invariant=_invariant_of(container),
                    message="bookkeeping still holds ended requests at a quiescent point",
                    expected="no entry of an ended request in any container of adapter or connector",
                    found=f"stage{part} {container}: {count} entries after "
                    f"{self._soak.ledger.counts.started:,} requests",
                    key=f"stage{part}.{container}",
                    evidence={"entries": shown},
                )
            )

    def _grow(self, finding: Finding) -> None:
        """Keep the newest state of a finding, and since when it is there."""
        soak = self._soak
        old = next((f for f in soak.residue.all() if f.identity == finding.identity), None)
        since = old.evidence.get("since_request") if old else soak.ledger.counts.started
        points = old.evidence.get("points", 0) if old else 0
        evidence = {
            **finding.evidence,
            "since_request": since,
            "points": (points if isinstance(points, int) else 0) + 1,
        }
        soak.residue.put(
            Finding(
                invariant=finding.invariant,
                message=finding.message,
                expected=finding.expected,
                found=finding.found,
                key=finding.key,
                evidence=evidence,
            )
        )


def _invariant_of(container: str) -> str:
    """As the residue check of a single case attributes it."""
    if container.endswith("_pending_keys"):
        return "I23"
    return "I52" if "cancelled" in container else "I39"
