"""Nothing may outlive its owner: segments, lock files, FIFOs, container entries."""

from __future__ import annotations

from omni_verify.checks.observation import Broken, Observation

__all__ = ["check_closed", "check_quiet", "check_state"]

_QUIET = ("I51", "I31", "I35", "I50", "I30", "I27", "I20", "I19", "I53", "I21", "I32")
_CLOSED = ("I53", "I22", "I51")
_KEPT = (
    ("pending", ("I23", "I51"), "transfer keys that nobody will read"),
    # A mark that outlives its request does harm by number only: the growth check and long runs judge it.
    ("tombstone", ("I52",), "marks of cleaned requests"),
    ("state", ("I39", "I35"), "an ended request"),
)


def check_quiet(seen: Observation) -> list[Broken]:
    """No segment, lock file or stray FIFO at quiescence (I51; vllm-omni#8082, #4349)."""
    if not seen.quiet:
        return []
    return [
        Broken(
            family=_QUIET,
            message="shared memory outlives every request that could own it",
            expected="nothing of this run under /dev/shm once no request is live and every queue is empty",
            found=_names(seen.quiet),
            key=_first(seen.quiet),
            evidence={"names": seen.quiet},
        )
    ]


def check_closed(seen: Observation) -> list[Broken]:
    """No own object after every connector was closed (I22, I53)."""
    if not seen.closed:
        return []
    return [
        Broken(
            family=_CLOSED,
            message="shared memory outlives the close of every connector",
            expected="no segment and no lock file of this run after close",
            found=_names(seen.closed),
            key=_first(seen.closed),
            evidence={"names": seen.closed},
        )
    ]


def check_state(seen: Observation) -> list[Broken]:
    """No container entry of an ended request (I39; vllm-omni#6352), no key that was consumed (I23)."""
    kinds: dict[str, list[str]] = {"pending": [], "tombstone": [], "state": []}
    for x in seen.leftovers or []:
        kind = (
            "pending"
            if x.container == "_pending_keys"
            else "tombstone"
            if "cancelled" in x.container
            else "state"
        )
        kinds[kind].append(f"{x.owner}.{x.container}: {x.entry}")
    broken = [
        Broken(
            family=family,
            message=f"bookkeeping still holds {what}",
            expected="no entry of an ended request in any container of adapter or connector",
            found=_names(kinds[kind]),
            key=kinds[kind][0].split(":")[0],
        )
        for kind, family, what in _KEPT
        if kinds[kind]
    ]
    if seen.growth:
        broken.append(
            Broken(
                family=("I39",),
                message="a container grows with the number of finished requests",
                expected="sizes that depend on live requests only",
                found=_names(seen.growth),
                key=seen.growth[0].split(":")[0],
            )
        )
    return broken


def _names(names: list[str], limit: int = 8) -> str:
    more = f", … ({len(names)} in all)" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def _first(names: list[str]) -> str:
    return names[0] if names else ""
