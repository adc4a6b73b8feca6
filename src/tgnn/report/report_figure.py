"""Data class of the figures on the report page. Each figure has one or more SVG panels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup


@dataclass(frozen=True)
class ReportFigure:
    """Figure with one or more panels.

    Args:
        title: Heading above the panels.
        panels: SVG charts.
        legend: Legend as HTML.
        note: Text below the panels.
    """

    title: str
    panels: Sequence[Markup]
    legend: str = ""
    note: str = ""
