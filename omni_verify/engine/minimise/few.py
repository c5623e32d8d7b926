"""Schedules that have few preemptions by construction: all of them, or samples."""

from __future__ import annotations

from omni_verify.engine.minimise.attempts import Attempts
from omni_verify.engine.strategies.exhaustive import Exhaustive
from omni_verify.engine.strategies.pct import PCT

__all__ = ["begin_with_few", "bound_preemptions"]

# Runs of PCT that a long failing tape is compared with, and the switches from which on a tape is long.
_PROBES, _LONG = 80, 12
# Runs of PCT at each bound that could not be exhausted.
_SAMPLES = 40


def begin_with_few(attempts: Attempts) -> None:
    """Look for the same failure among runs with one or two preemptions.

    A random walk deviates at every other decision; setting hundreds of deviations back one group at a time
    would use up all reruns before it gets small.
    """
    for seed in range(_PROBES):
        if attempts.best.switches <= _LONG or attempts.left <= 0:
            return
        _probe(attempts, seed, depth=2 + seed % 2)


def bound_preemptions(attempts: Attempts) -> None:
    """Look for a run with fewer preemptions than the best one, by increasing bound."""
    bound = 0
    while bound < attempts.best.preemptions and attempts.left > 0:
        # An equal share for each bound: the switches of ended or blocked tasks alone may be many at bound 0.
        share = attempts.left // (attempts.best.preemptions - bound)
        if not _exhaust(attempts, bound, max(0, share - _SAMPLES)):
            _sample(attempts, bound, min(share, _SAMPLES))
        bound += 1


def _exhaust(attempts: Attempts, bound: int, share: int) -> bool:
    """Run every schedule within ``bound``; True when one was better or there are no more."""
    walk = Exhaustive(bound=bound)
    for _ in range(share):
        if not walk.new_execution():
            return True
        run = attempts.run(walk)
        if run is not None and attempts.left > 0 and attempts.tape(run.tape):
            return True
    return False


def _sample(attempts: Attempts, bound: int, share: int) -> None:
    """Try a few runs of a bound that takes more than its share to exhaust."""
    for seed in range(share):
        if attempts.best.preemptions <= bound or attempts.left <= 0:
            return
        _probe(attempts, seed, depth=bound + 1)


def _probe(attempts: Attempts, seed: int, *, depth: int) -> None:
    """Run PCT, which changes priorities ``depth - 1`` times, and keep what is better."""
    probe = PCT(seed, depth=depth)
    probe.length = max(1, len(attempts.best.tape))
    probe.new_execution()
    run = attempts.run(probe)
    if run is not None and attempts.left > 0:
        attempts.tape(run.tape)
