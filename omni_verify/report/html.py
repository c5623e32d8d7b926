"""A report as one HTML file: everything inlined, no reference to anything outside, light and dark.

Charts are drawn by uPlot (vendored in ``page``, MIT): hover, zoom and a cursor that all charts share cost
51 KB there, and would be our own code with plain SVG.
"""

from __future__ import annotations

from importlib import resources

import jinja2
import msgspec
from markupsafe import Markup

from omni_verify.checks.trend.text import amount, bounds
from omni_verify.report.plain import plain
from omni_verify.report.soak.view import View
from omni_verify.verdict import Verdict

__all__ = ["soak_html"]

PHASE_TEXTS = {
    "warm-up": "requests that fill pools and caches; not judged",
    "load": "the mix, with aborts",
    "control": "the same without aborts: what is left over is not the aborts'",
    "idle": "no requests",
    "trim": "the allocator gave back what it retained",
}


def soak_html(view: View) -> str:
    """Render a soak; hostile names are data in it, never markup."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("omni_verify.report", "page"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.filters["asset"] = _asset
    environment.filters["word"] = lambda verdict: Verdict(verdict).value.replace("_", " ")
    environment.filters["interval"] = _interval
    environment.globals |= {"amount": amount, "bounds": bounds}
    return environment.get_template("soak.html").render(
        view=view, data=_json(view), phases=PHASE_TEXTS, seen={span.phase for span in view.spans}
    )


def _shown(value: object) -> object:
    """Show what a page cannot hold, such as a zero byte; line breaks of a log stay."""
    return plain(value, keep="\n\t") if isinstance(value, str) and not isinstance(value, Markup) else value


def _asset(name: str) -> Markup:
    text = resources.files("omni_verify.report.page").joinpath(name).read_text()
    return Markup(text)


def _json(view: View) -> Markup:
    """Encode for a script element: no character that could end it or begin a comment, none that is unseen."""
    text = msgspec.json.encode({"spans": view.spans, "sections": view.sections}).decode()
    for character in {"<", ">", "&", *(c for c in set(text) if not c.isprintable() and c <= "\uffff")}:
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _interval(lower: float, upper: float, estimate: float, budget: float) -> dict[str, float] | None:
    """Lay an interval and its budget on a scale from 0 to 100; None when it has no end."""
    values = (lower, upper, estimate, budget)
    if not all(abs(v) < float("inf") for v in values):
        return None
    low, high = min(0.0, lower), max(budget * 1.5, upper)
    pad = (high - low) * 0.04
    low, high = low - pad, high + pad

    def place(value: float) -> float:
        return round(100 * (value - low) / (high - low), 2)

    return {
        "zero": place(0.0),
        "lower": place(lower),
        "width": round(max(place(upper) - place(lower), 0.8), 2),
        "estimate": place(estimate),
        "budget": place(budget),
    }
