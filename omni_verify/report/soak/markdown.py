"""A soak as Markdown: the verdict, the judgements in a table, every sentence."""

from __future__ import annotations

import re

from omni_verify.checks.trend.report import Judgement
from omni_verify.checks.trend.text import amount, bounds
from omni_verify.report.plain import plain
from omni_verify.report.soak.view import View

__all__ = ["soak_markdown"]


def soak_markdown(view: View, *, image: str = "") -> str:
    """Render a soak.

    Args:
        image: address of the plots, relative to where the text will lie; none when empty.
    """
    lines = [
        f"# {_plain(view.title)}",
        "",
        f"**{view.verdict.value.replace('_', ' ')}**: {_plain(view.reason)}",
        "",
        ", ".join(f"{_plain(name)} {_plain(value)}" for name, value in view.facts),
        "",
    ]
    if image:
        lines += [f"![series, phases and fits](<{image}>)", ""]
    if view.findings:
        lines += ["## Findings", ""]
        lines += [f"- {_plain(f.invariant)}: {_plain(f.message)}" for f in view.findings]
        lines += [""]
    measured = [j for j in view.judgements if j.budget]
    if measured:
        lines += ["## What was judged", ""]
        lines += [
            "| subject | question | estimate | bounds | budget | verdict |",
            "|---|---|---|---|---|---|",
        ]
        lines += [_row(j) for j in measured]
        lines += [""]
    lines += [f"- {j.verdict.value}: {_plain(j.sentence)}" for j in view.judgements]
    return "\n".join(lines) + "\n"


def _row(j: Judgement) -> str:
    cells = (
        _plain(j.subject),
        j.question,
        amount(j.estimate, j.unit),
        bounds(j.lower, j.upper, j.unit),
        amount(j.budget, j.unit),
        j.verdict.value,
    )
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    """Escape what Markdown or HTML inside it would read as markup."""
    return re.sub(r"([\\`*_\[\]<>|#&])", r"\\\1", plain(" ".join(text.split())))
