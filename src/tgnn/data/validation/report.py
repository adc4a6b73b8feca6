"""What a reader found in somebody's data: how large it is, what is odd in it, and where."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, NoReturn

import numpy as np

LEVELS = ("error", "warning", "note")
"""An error: the data cannot be used like that. A warning: it can, but look. A note: what was done with it."""
SHOWN = 10
"""So many places of a finding are listed; the rest is counted."""


@dataclass(frozen=True)
class Finding:
    """One thing that is odd, or that was decided for the user.

    Args:
        level: One of :data:`LEVELS`.
        code: A short name that stays the same, for programs: ``"dangling-id"``.
        text: What it is, and the way out.
        file: In which file; empty: in the data as a whole.
        unit: What the places are: ``"line"`` of a text file, ``"row"`` of another, ``"node"``, ``"edge"``, ``"graph"``.
        places: The first of them, counted as a text editor counts lines: from 1, the header included. Nodes, edges and
            graphs are counted from 0, as tensors are.
        count: Of all places.

    Example:
        >>> print(Finding("warning", "self-loop", "a node linked to itself", "edges.csv", places=(3, 7), count=2))
        edges.csv, lines 3, 7: a node linked to itself
    """

    level: str
    code: str
    text: str
    file: str = ""
    unit: str = "line"
    places: tuple[int, ...] = ()
    count: int = 0

    def __str__(self) -> str:
        where = [self.file] if self.file else []
        if self.places:
            more = f", ... ({self.count:,} in all)" if self.count > len(self.places) else ""
            where.append(f"{self.unit}{'s' if self.count > 1 else ''} {', '.join(map(str, self.places))}{more}")
        return ": ".join(filter(None, [", ".join(where), self.text]))


@dataclass(frozen=True)
class Places:
    """What the rows of something are called in a report.

    Args:
        file: Where they are; empty: in memory.
        unit: What one is called.
        numbers: From positions, which count from 0, to the numbers that the user knows.
        merged: Whether several rows may be one place, as the nodes of a graph are.

    Example:
        >>> lines = Places("nodes.csv", "line", lambda rows: rows + 2)
        >>> print(lines.finding("error", "odd", "is odd", np.array([False, True, True])))
        nodes.csv, lines 3, 4: is odd
    """

    file: str = ""
    unit: str = "row"
    numbers: Callable[[np.ndarray], np.ndarray] = field(default=lambda rows: rows, repr=False)
    merged: bool = False

    def finding(self, level: str, code: str, text: str, rows: np.ndarray | None = None) -> Finding:
        """A finding here.

        Args:
            level: One of :data:`LEVELS`.
            code: Its short name.
            text: What it is.
            rows: Positions, or a mask over all rows; ``None``: all of it.
        """
        if rows is None:
            return Finding(level, code, text, self.file, self.unit)
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows
        places = np.unique(self.numbers(rows)) if self.merged else self.numbers(rows[:SHOWN])
        first = tuple(places[:SHOWN].tolist())
        return Finding(level, code, text, self.file, self.unit, first, len(places) if self.merged else len(rows))


class DataError(ValueError):
    """Data that cannot be used; ``report`` has all that was found."""

    def __init__(self, report: Report) -> None:
        errors = [str(finding) for finding in report.findings if finding.level == "error"]
        super().__init__("\n".join([f"{report.path} cannot be used:", *(f"- {error}" for error in errors)]))
        self.report = report

    def __reduce__(self) -> tuple[Any, ...]:
        """For a pickle: an error may come out of another process."""
        return type(self), (self.report,)


@dataclass
class Report:
    """What there is and what is odd.

    Args:
        path: As the user gave it.
        kind: What was recognised, such as ``"table"``.
        statistics: Numbers of nodes, edges, features, classes and so on, by name.
        findings: In the order in which they were made.

    Example:
        >>> report = Report("folder", "table", {"nodes": 3})
        >>> report.add(Finding("warning", "constant-feature", "the feature 'a' is the same everywhere"))
        >>> print(report)
        folder: table
          nodes: 3
          warning: the feature 'a' is the same everywhere
        0 errors, 1 warning, 0 notes
        >>> report.ok
        True
    """

    path: str
    kind: str
    statistics: dict[str, Any] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether there is no error."""
        return all(finding.level != "error" for finding in self.findings)

    def add(self, *findings: Finding) -> None:
        """Takes in more."""
        self.findings.extend(findings)

    def raise_for_errors(self) -> None:
        """Raises a :class:`DataError`, which is a ``ValueError``, that names all errors; does nothing without any."""
        if not self.ok:
            raise DataError(self)

    def fail(self, *findings: Finding) -> NoReturn:
        """These are errors after which there is nothing left to read."""
        self.add(*findings)
        raise DataError(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        findings = [asdict(finding) | {"places": list(finding.places)} for finding in self.findings]
        return {
            "path": self.path,
            "kind": self.kind,
            "ok": self.ok,
            "statistics": self.statistics,
            "findings": findings,
        }

    def __str__(self) -> str:
        lines = [f"{self.path}: {self.kind}"]
        lines += [f"  {name}: {_plain(value)}" for name, value in self.statistics.items()]
        ordered = sorted(self.findings, key=lambda finding: LEVELS.index(finding.level))
        lines += [f"  {finding.level}: {finding}" for finding in ordered]
        counts = [sum(finding.level == level for finding in self.findings) for level in LEVELS]
        lines += [", ".join(f"{count} {level}{'s' * (count != 1)}" for count, level in zip(counts, LEVELS))]
        return "\n".join(lines)


def named(values: Iterable[object], limit: int = 5) -> str:
    """The first few, quoted, and how many more.

    Example:
        >>> named(["a", "b", "c"], limit=2)
        "'a', 'b' and 1 more"
    """
    values = list(values)
    text = ", ".join(map(repr, values[:limit]))
    return text if len(values) <= limit else f"{text} and {len(values) - limit:,} more"


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)
