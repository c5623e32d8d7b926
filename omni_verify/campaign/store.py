"""The run store: one folder a run, with the evidence of every case.

``<root>/<utc>-<command>-<target>/result.json`` and ``cases/<id>/{case.json,trace.jsonl,stacks.txt,log.txt}``;
``<root>/latest`` points to the newest. A run never overwrites another.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from pathlib import Path
from typing import Self

import msgspec

from omni_verify.audit.draft import draft_of
from omni_verify.campaign import events
from omni_verify.campaign.result import record_of
from omni_verify.errors import UsageError
from omni_verify.harness.result import CaseResult

__all__ = ["RunStore", "case_folder"]


def case_folder(case_id: str) -> str:
    """Folder name of a case below ``cases``."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", case_id)


class RunStore:
    """Writes one run while it happens; an event consumer like a report.

    Raises:
        UsageError: the folder cannot be made.
    """

    def __init__(self, root: Path, command: str, target: str) -> None:
        stamp = dt.datetime.now(dt.UTC).strftime("%Y%m%dT%H%M%S")
        name = f"{stamp}-{command}-{re.sub(r'[^A-Za-z0-9.]+', '-', target).strip('-')[-60:]}"
        self.path = self._create(root, name)
        latest = root / f".latest-{os.getpid()}"
        latest.unlink(missing_ok=True)
        latest.symlink_to(self.path.name)
        latest.replace(root / "latest")  # one step: a reader never finds it missing

    @classmethod
    def reopen(cls, path: Path) -> Self:
        """Write into the folder of an earlier run, which goes on."""
        store = cls.__new__(cls)
        store.path = path
        return store

    def handle(self, event: events.Event) -> None:
        """Write what an event brings."""
        if isinstance(event, events.CaseFinished):
            self._write_case(event.case)
        elif isinstance(event, events.RunFinished):
            self.write_result(event.result)

    def write_result(self, result: object) -> None:
        """Write ``result.json``, whole or not at all."""
        with draft_of(self.path / "result.json") as draft:
            draft.write_bytes(msgspec.json.format(msgspec.json.encode(result)) + b"\n")

    def evidence_of(self, case_id: str) -> Path:
        """Folder with the evidence of a case."""
        return self.path / "cases" / case_folder(case_id)

    def _write_case(self, case: CaseResult) -> None:
        folder = self.evidence_of(case.id)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "case.json").write_bytes(msgspec.json.format(msgspec.json.encode(record_of(case))) + b"\n")
        with (folder / "trace.jsonl").open("wb") as file:
            for event in case.trace:
                file.write(msgspec.json.encode(event) + b"\n")
        for name, text in (("stacks.txt", case.stacks), ("log.txt", "\n".join(case.log))):
            if text:
                (folder / name).write_text(text + "\n")

    @staticmethod
    def _create(root: Path, name: str) -> Path:
        try:
            for n in range(1, 1000):
                path = root / (name if n == 1 else f"{name}-{n}")
                try:
                    path.mkdir(parents=True)
                except FileExistsError:
                    continue
                return path
        except OSError as error:
            raise UsageError(
                f"cannot write the run store {str(root)!r}: {error.strerror}. "
                "Choose another folder with --report-dir, or none with --no-store."
            ) from None
        raise UsageError(f"the run store {str(root)!r} has 1,000 runs of this second; clean it up.")
