"""The JUnit report. Known failures are passed cases here, because a CI judges by this file.

Case names are unique; invariant ids, story and replay are in the failure message, where every CI shows them.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence

from omni_verify.campaign.events import CaseFinished, Event, RunStarted
from omni_verify.harness.result import CaseResult
from omni_verify.report.json_file import write_text
from omni_verify.report.story import headline, story
from omni_verify.targets.protocol import TargetInfo
from omni_verify.verdict import Verdict

__all__ = ["JUnitReporter", "junit_xml"]

_CONTROL = re.compile(r"[^\x09\x0a\x0d\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class JUnitReporter:
    """Collects the cases of one or several runs and writes one file at the end."""

    def __init__(self, where: str) -> None:
        self.where = where
        self._runs: list[tuple[RunStarted, list[CaseFinished]]] = []

    def handle(self, event: Event) -> None:
        """Take one event."""
        if isinstance(event, RunStarted):
            self._runs.append((event, []))
        elif isinstance(event, CaseFinished):
            self._runs[-1][1].append(event)

    def finish(self) -> None:
        """Write the file."""
        write_text(self.where, junit_xml([(start.target, cases) for start, cases in self._runs]))


def junit_xml(runs: Sequence[tuple[TargetInfo, Sequence[CaseFinished]]]) -> str:
    """Build the document: one suite a target, one case a scenario."""
    root = ET.Element("testsuites", name="omni-verify")
    for info, finished in runs:
        name = f"{info.name} {info.version}".strip()
        suite = ET.SubElement(root, "testsuite", name=name, tests=str(len(finished)))
        counts = {"failures": 0, "errors": 0, "skipped": 0}
        for event in sorted(finished, key=lambda e: e.case.id):
            kind = _case(suite, event.case, info, name, event.expected)
            if kind:
                counts[kind] += 1
        for kind, count in counts.items():
            suite.set(kind, str(count))
        suite.set("time", f"{sum(e.case.duration_s for e in finished):.3f}")
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _case(suite: ET.Element, case: CaseResult, info: TargetInfo, name: str, expected: Verdict | None) -> str:
    element = ET.SubElement(
        suite, "testcase", classname=f"omni_verify.{name}", name=case.id, time=f"{case.duration_s:.3f}"
    )
    if case.verdict is Verdict.HELD and expected is not Verdict.VIOLATED:
        return ""
    if case.verdict is Verdict.NOT_APPLICABLE:
        ET.SubElement(element, "skipped", message=_clean(case.reason))
        return "skipped"
    text = _clean("\n".join(story(case, info)))
    if case.verdict is Verdict.VIOLATED and expected is Verdict.VIOLATED:
        ET.SubElement(element, "system-out").text = f"known failure\n{text}"
        return ""
    if case.verdict is Verdict.HELD:
        message = "unexpected pass: it held, but is listed as a known failure"
        ET.SubElement(element, "failure", message=message, type="unexpected_pass")
        return "failures"
    tag, kind = ("failure", "failures") if case.verdict is Verdict.VIOLATED else ("error", "errors")
    ids = ", ".join(dict.fromkeys(f.invariant for f in case.findings))
    message = (
        f"{headline(case)} [{ids}] replay: {case.replay}"
        if ids
        else f"{headline(case)} replay: {case.replay}"
    )
    child = ET.SubElement(element, tag, message=_clean(message), type=case.verdict.value)
    child.text = text
    return kind


def _clean(text: str) -> str:
    """Replace characters that XML 1.0 cannot carry; odd request ids contain them."""
    return _CONTROL.sub("�", text)
