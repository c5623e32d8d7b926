"""The child's side of a scenario process: its own script, and what it hands back."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import msgspec

from omni_verify.checks.observation import Broken, Delivered, Leftover, Sent
from omni_verify.engine.gates import ThreadRuntime
from omni_verify.engine.order import PartialOrder
from omni_verify.engine.peers import PeerRuntime
from omni_verify.engine.runtime import Cut

if TYPE_CHECKING:
    from omni_verify.engine.peers import Peer
    from omni_verify.harness.script import Script

__all__ = ["PeerResult", "absorb", "run_peer"]

# A peer with its own clock does a long job without an order: its waits get that many times the usual bound.
_OWN_CLOCK = 12


class PeerResult(msgspec.Struct, kw_only=True):
    """What a peer observed; it joins the parent's observation."""

    sent: list[Sent] = []
    delivered: list[Delivered] = []
    broken: list[Broken] = []
    leftovers: list[Leftover] = []
    dead_threads: list[str] = []
    checked: int = 0
    cut: str = ""


def run_peer(
    parent: Script, name: str, body: Callable[[Script], Any], pipe: Connection, *, own_clock: bool
) -> None:
    """Run `body` in this forked child and send a `PeerResult`."""
    from omni_verify.harness.script import Script

    bounds = parent.settings
    gate = PeerRuntime(name, pipe, gate_s=bounds.gate_s, wait_s=bounds.wait_s, prefix=parent.prefix)
    own = ThreadRuntime(
        PartialOrder(), gate_s=bounds.gate_s, wait_s=bounds.wait_s * _OWN_CLOCK, prefix=parent.prefix
    )
    script = Script(
        parent.target,
        own if own_clock else gate,
        PartialOrder(),
        parent.prefix,
        settings=bounds,
        coarse=own_clock,
    )
    if not gate.go.wait(bounds.gate_s):
        return
    try:
        body(script)
        script.quiesce_peer()
    except Cut:
        pass
    except Exception:
        gate.send("error", traceback.format_exc())
    result = PeerResult(
        sent=script.seen.sent,
        delivered=script.seen.delivered,
        broken=script.broken,
        leftovers=script.seen.leftovers or [],
        dead_threads=script.seen.dead_threads or [],
        checked=script.checked,
        cut=script.runtime.cut,
    )
    gate.send("result", msgspec.msgpack.encode(result))
    script.shutdown()


def absorb(script: Script, peer: Peer) -> None:
    """Add what an ended peer observed to its parent's script."""
    if peer.error:
        script.seen.failures[peer.name] = peer.error.strip().splitlines()[-1]
    if peer.result is None:
        if not peer.error:
            script.seen.failures[peer.name] = f"the process ended with {peer.returncode} and no result"
        return
    result = msgspec.msgpack.decode(peer.result, type=PeerResult)
    script.broken += result.broken
    script.checked += result.checked
    script.seen.sent += result.sent
    script.seen.delivered += result.delivered
    script.seen.leftovers = [*(script.seen.leftovers or []), *result.leftovers]
    script.seen.dead_threads = [*(script.seen.dead_threads or []), *result.dead_threads]
    if result.cut:
        script.seen.cut = script.seen.cut or f"{peer.name}: {result.cut}"
