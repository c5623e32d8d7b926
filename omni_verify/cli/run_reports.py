"""Puts the reports of a command together and takes them down, also after an error."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from omni_verify.campaign.events import Emit
from omni_verify.campaign.store import RunStore
from omni_verify.report import JUnitReporter, TerminalReporter, consoles, fan_out

__all__ = ["Reports"]


class Reports:
    """Reports of one command line.

    Args:
        command: name of the command.
        json: where JSON goes; ``-`` moves the text to stderr.
        junit: where JUnit goes.
        store: root of the run store, None for none.
        verbosity: as `TerminalReporter`.
    """

    def __init__(
        self, command: str, *, json: str | None, junit: str | None, store: Path | None, verbosity: int
    ) -> None:
        self.command, self.json = command, json
        self.out, self.err = consoles(result_to_stderr="-" in (json, junit))
        self.verbosity = verbosity
        self._junit = JUnitReporter(junit) if junit else None
        self._store_root = store
        self._terminals: list[TerminalReporter] = []
        self.stores: list[RunStore] = []

    def emit_for(self, target: str) -> Emit:
        """Event consumer for the run of one target."""
        store = RunStore(self._store_root, self.command, target) if self._store_root else None
        terminal = TerminalReporter(
            self.out, self.err, verbosity=self.verbosity, evidence_of=store.evidence_of if store else None
        )
        self._terminals.append(terminal)
        consumers: list[Emit] = [terminal.handle]
        if store is not None:
            self.stores.append(store)
            consumers.insert(0, store.handle)
        if self._junit is not None:
            consumers.append(self._junit.handle)
        return fan_out(consumers)

    @contextlib.contextmanager
    def open(self) -> Iterator[Reports]:
        """Restore the terminal whatever happens; write the JUnit file when the run came to an end."""
        try:
            yield self
        finally:
            for terminal in self._terminals:
                terminal.finish()
        if self._junit is not None:
            self._junit.finish()
        if self.verbosity >= 0:
            for store in self.stores:
                self.err.print(f"evidence: {store.path}", style="dim", markup=False)
