"""Strategies: who runs next. One file each, named by the noun that users type."""

from __future__ import annotations

from collections.abc import Callable

from omni_verify.engine.strategies.base import Sampler, Strategy
from omni_verify.engine.strategies.coarse import CoarsePOS
from omni_verify.engine.strategies.dpor import DPOR
from omni_verify.engine.strategies.exhaustive import Exhaustive
from omni_verify.engine.strategies.pct import PCT
from omni_verify.engine.strategies.portfolio import Portfolio
from omni_verify.engine.strategies.pos import POS
from omni_verify.engine.strategies.random_walk import RandomWalk
from omni_verify.engine.strategies.replay import Replay
from omni_verify.engine.strategies.round_robin import RoundRobin
from omni_verify.engine.strategies.surw import SURW
from omni_verify.errors import unknown_value

__all__ = [
    "DPOR",
    "PCT",
    "POS",
    "STRATEGIES",
    "SURW",
    "CoarsePOS",
    "Exhaustive",
    "Portfolio",
    "RandomWalk",
    "Replay",
    "RoundRobin",
    "Sampler",
    "Strategy",
    "make_strategy",
]

STRATEGIES: dict[str, Callable[[int], Strategy]] = {
    "portfolio": Portfolio,
    "random": RandomWalk,
    "pct": PCT,
    "pct2": lambda seed: PCT(seed, depth=2),
    "pct3": PCT,
    "pos": POS,
    "coarse": CoarsePOS,
    "surw": SURW,
    "round_robin": RoundRobin,
    "dpor": DPOR,
    "exhaustive": lambda seed: Exhaustive(seed, bound=None),
    "exhaustive1": lambda seed: Exhaustive(seed, bound=1),
    "exhaustive2": lambda seed: Exhaustive(seed, bound=2),
    "exhaustive3": lambda seed: Exhaustive(seed, bound=3),
}


def make_strategy(name: str, seed: int = 0) -> Strategy:
    """Build the strategy called ``name``.

    Raises:
        UsageError: for an unknown name.
    """
    if name not in STRATEGIES:
        raise unknown_value("strategy", name, STRATEGIES)
    return STRATEGIES[name](seed)
