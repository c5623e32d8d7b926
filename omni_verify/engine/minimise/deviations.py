"""Take deviations of a schedule back: delta debugging over the choices that are not "continue"."""

from __future__ import annotations

from omni_verify.engine.minimise.attempts import Attempts

__all__ = ["take_back"]


def take_back(attempts: Attempts) -> None:
    """Set groups of deviations back to 0, from large groups to single ones.

    Zeller, Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (TSE 2002).
    """
    size = max(1, attempts.best.switches // 2)
    while attempts.left > 0:
        best = attempts.best
        places = [at for at, code in enumerate(best.tape) if code]
        progress = False
        # From the end: zeroing a late choice keeps the meaning of all earlier ones.
        for start in range(len(places) - size, -size, -size):
            if attempts.left <= 0:
                return
            group = places[max(0, start) : start + size]
            if attempts.tape([0 if at in group else code for at, code in enumerate(best.tape)]):
                best, progress = attempts.best, True  # the groups before it stand where they stood
        if progress:
            size = max(1, min(size, best.switches // 2))
        elif size == 1:
            return
        else:
            size = max(1, size // 2)
