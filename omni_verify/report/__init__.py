"""Renders events and results: terminal, JSON, JUnit, and the story of a case as text."""

from omni_verify.report.difference import matrix_lines
from omni_verify.report.json_file import check_writable, write_json, write_text
from omni_verify.report.junit import JUnitReporter, junit_xml
from omni_verify.report.reporter import fan_out
from omni_verify.report.story import headline, story, target_text
from omni_verify.report.terminal import TerminalReporter, consoles, summary_line

__all__ = [
    "JUnitReporter",
    "TerminalReporter",
    "check_writable",
    "consoles",
    "fan_out",
    "headline",
    "junit_xml",
    "matrix_lines",
    "story",
    "summary_line",
    "target_text",
    "write_json",
    "write_text",
]
