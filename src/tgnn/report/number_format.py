"""Formatting of numbers on the report page."""

from __future__ import annotations

import math
from typing import Any

MINUS = "\u2212"


def number(value: Any) -> float | None:
    """Convert a value from a file to a finite number, or return ``None``.

    Example:
        >>> number(3), number("3"), number(float("nan")), number(True)
        (3.0, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def metric(value: float | None) -> str:
    """Format a score with four decimals, fewer for large values.

    Example:
        >>> metric(0.86804), metric(-0.5), metric(123.4567), metric(54321.0), metric(None)
        ('0.8680', '−0.5000', '123.46', '54,321', '')
    """
    if value is None or not math.isfinite(value):
        return ""
    size = abs(value)
    text = f"{size:.4f}" if size < 10 else f"{size:.2f}" if size < 1000 else f"{size:,.0f}"
    return (MINUS if value < 0 else "") + text


def signed(value: float) -> str:
    """Format a difference with its sign."""
    return metric(value) if value < 0 else "+" + metric(value)


def p_value(value: float) -> str:
    """Format a p-value.

    Example:
        >>> p_value(0.00002), p_value(0.0312)
        ('<0.001', '0.031')
    """
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def count(value: float | None) -> str:
    """Format an integer."""
    return "" if value is None else f"{value:,.0f}"


def rate(value: float | None) -> str:
    """Format a number with three significant digits.

    Example:
        >>> rate(123.456), rate(1.23456), rate(0.0123456), rate(12345.6)
        ('123', '1.23', '0.0123', '12,346')
    """
    if value is None:
        return ""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"
