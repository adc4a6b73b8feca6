"""What a figure of the page is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup


@dataclass(frozen=True)
class Figure:
    """Panels that belong together.

    Args:
        title: Above them.
        panels: Drawings.
        legend: What their signs mean.
        note: Under them.
    """

    title: str
    panels: Sequence[Markup]
    legend: str = ""
    note: str = ""
