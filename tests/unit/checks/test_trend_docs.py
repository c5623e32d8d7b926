"""docs/reference/trend.md names every setting of the trend verdict with its default and its reason."""

import os
import re
from pathlib import Path

from omni_verify.checks.trend.settings import TrendSettings

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "trend.md"
BLOCK = re.compile(r"(?<=<!-- settings -->\n).*?(?=<!-- end -->)", re.DOTALL)


def reasons():
    """What the docstring says of each setting; settings that are described together share a row."""
    text = TrendSettings.__doc__.split("Attributes:\n", 1)[1]
    for names, reason in re.findall(r"^ {8}([a-z_, ]+): (.*(?:\n {12}.*)*)", text, re.MULTILINE):
        yield names.split(", "), " ".join(reason.split()).replace("``", "`")


def shown(value):
    if isinstance(value, tuple):
        return ", ".join(f"`{v}`" for v in value)
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:,g}"


def table():
    lines = ["| setting | default | meaning, and why this default |", "| --- | --- | --- |"]
    for names, why in reasons():
        defaults = "; ".join(shown(getattr(TrendSettings(), name)) for name in names)
        lines.append(f"| {', '.join(f'`{name}`' for name in names)} | {defaults} | {why} |")
    return "\n".join(lines) + "\n"


def test_every_setting_has_a_reason():
    told = [name for names, _ in reasons() for name in names]
    assert sorted(told) == sorted(TrendSettings.__struct_fields__)


def test_the_page_has_them_all():
    text = PAGE.read_text()
    if os.environ.get("OMNI_VERIFY_UPDATE_DOCS"):
        text = BLOCK.sub(lambda _: table(), text)
        PAGE.write_text(text)
    assert BLOCK.search(text)[0] == table(), f"OMNI_VERIFY_UPDATE_DOCS=1 pytest {Path(__file__).name}"
