"""Numbers of the trend verdict as a reader wants them."""

from __future__ import annotations

import math

__all__ = ["amount", "bounds", "number"]

_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "KB"))


def amount(value: float, unit: str = "bytes") -> str:
    """Write bytes in the unit that suits them, counts as they are, with three digits."""
    if math.isinf(value):
        return "any amount" if value > 0 else "minus any amount"
    if unit == "bytes":
        for size, name in _UNITS:
            if abs(value) >= size * 0.9995:
                return f"{number(value / size)} {name}"
        return f"{number(value)} B"
    return number(value)


def number(value: float) -> str:
    """Write a number with three digits, thousands separated."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    text = f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 0.095 else f"{value:.2g}"
    return "0" if float(text) == 0 else text


def bounds(lower: float, upper: float, unit: str = "bytes") -> str:
    """Write an interval; one without a lower end by its upper end."""
    if math.isinf(lower):
        return "no bounds" if math.isinf(upper) else f"at most {amount(upper, unit)}"
    return f"{amount(lower, unit)} to {amount(upper, unit)}"
