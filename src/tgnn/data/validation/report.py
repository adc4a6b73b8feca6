"""Validation reports: the contents of a data set and every problem in it, with file, row and value."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

LEVELS = ("error", "warning", "note")
"""Severity of a finding. With an error the data cannot be used, a warning may be a mistake, a note is information."""
SHOWN = 10
"""Maximum number of locations and values that a finding lists. The others are only counted."""


@dataclass(frozen=True)
class Finding:
    """A problem in the data, or a decision that the reader made for the user.

    Args:
        level: One of :data:`LEVELS`.
        code: Stable identifier for programs, e.g. ``"dangling-id"``.
        message: Description of the problem and how to fix it.
        file: Name of the file. Empty if the finding concerns the data set as a whole.
        unit: What ``locations`` count: ``"line"`` of a text file, ``"row"`` of a Parquet file, ``"node"``, ``"edge"``
            or ``"graph"``.
        locations: The first :data:`SHOWN` locations. Lines and rows count from 1, and the header is line 1. Nodes,
            edges and graphs count from 0.
        count: Total number of locations.
        values: The values at the first locations, as text. Empty if there are none to show.

    Example:
        >>> print(Finding("warning", "self-loop", "self-loop", "edges.csv", locations=(3, 7), count=2))
        edges.csv, lines 3, 7: self-loop
    """

    level: str
    code: str
    message: str
    file: str = ""
    unit: str = "line"
    locations: tuple[int, ...] = ()
    count: int = 0
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = [self.file] if self.file else []
        if self.locations:
            more = f", ... ({self.count:,} in total)" if self.count > len(self.locations) else ""
            where.append(f"{self.unit}{'s' if self.count > 1 else ''} {', '.join(map(str, self.locations))}{more}")
        return ": ".join(filter(None, [", ".join(where), self.message]))


@dataclass(frozen=True)
class Locations:
    """Maps array positions to the locations that a user knows, such as lines of a file.

    Args:
        file: Name of the file. Empty for data in memory.
        unit: Name of one location, e.g. ``"line"`` or ``"node"``.
        numbers: Function from positions, which count from 0, to locations.
        merged: Whether several positions can have the same location, as the nodes of a graph do.

    Example:
        >>> lines = Locations("nodes.csv", "line", lambda positions: positions + 2)
        >>> print(lines.finding("error", "missing-id", "the node has no id", np.array([False, True, True])))
        nodes.csv, lines 3, 4: the node has no id
    """

    file: str = ""
    unit: str = "row"
    numbers: Callable[[np.ndarray], np.ndarray] = field(default=lambda positions: positions, repr=False)
    merged: bool = False

    def finding(
        self,
        level: str,
        code: str,
        message: str,
        positions: ArrayLike | None = None,
        values: np.ndarray | None = None,
    ) -> Finding:
        """Create a finding at some of the positions.

        Args:
            level: One of :data:`LEVELS`.
            code: Stable identifier of the problem.
            message: Description of the problem.
            positions: Indices, or a boolean mask over all positions. ``None`` if the finding concerns all of them.
            values: Value at every position. Those at ``positions`` are stored in the finding.
        """
        if positions is None:
            return Finding(level, code, message, self.file, self.unit)
        positions = as_positions(positions)
        numbers = np.unique(self.numbers(positions)) if self.merged else self.numbers(positions[:SHOWN])
        count = len(numbers) if self.merged else len(positions)
        shown = () if values is None else tuple(f"{value}" for value in values[positions[:SHOWN]])
        return Finding(level, code, message, self.file, self.unit, tuple(numbers[:SHOWN].tolist()), count, shown)


class DataError(ValueError):
    """Data that cannot be used. ``report`` holds all findings."""

    def __init__(self, report: ValidationReport) -> None:
        errors = [str(finding) for finding in report.findings if finding.level == "error"]
        super().__init__("\n".join([f"{report.path} cannot be used:", *(f"- {error}" for error in errors)]))
        self.report = report

    def __reduce__(self) -> tuple[Any, ...]:
        """Support pickling, because the error may come from another process."""
        return type(self), (self.report,)


@dataclass
class ValidationReport:
    """The contents of a data set and every problem in it, as :func:`tgnn.data.validate` returns them.

    Args:
        path: Path of the data, as the user gave it.
        format: Detected format, e.g. ``"table"`` (see :func:`~tgnn.data.readers.detect.detect_format`).
        statistics: Number of nodes, edges, features, classes and so on.
        findings: Findings in the order in which they were made.

    Example:
        >>> report = ValidationReport("folder", "table", {"nodes": 3})
        >>> report.add(Finding("warning", "constant-feature", "feature 'a' is constant"))
        >>> print(report)
        folder: table
          nodes: 3
          warning: feature 'a' is constant
        0 errors, 1 warning, 0 notes
        >>> report.ok
        True
    """

    path: str
    format: str
    statistics: dict[str, Any] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether the data can be used, i.e. no finding is an error."""
        return all(finding.level != "error" for finding in self.findings)

    def add(self, *findings: Finding) -> None:
        """Add findings to the report."""
        self.findings.extend(findings)

    def raise_for_errors(self) -> None:
        """Raise a :class:`DataError` that lists all errors, if there are any."""
        if not self.ok:
            raise DataError(self)

    def fail(self, *findings: Finding) -> NoReturn:
        """Add errors and raise a :class:`DataError`, because the data cannot be read any further."""
        self.add(*findings)
        raise DataError(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as built-in types for JSON."""
        return {
            "path": self.path,
            "format": self.format,
            "ok": self.ok,
            "statistics": self.statistics,
            "findings": [
                asdict(finding) | {"locations": list(finding.locations), "values": list(finding.values)}
                for finding in self.findings
            ],
        }

    def __str__(self) -> str:
        lines = [f"{self.path}: {self.format}"]
        lines += [f"  {name}: {_format_statistic(value)}" for name, value in self.statistics.items()]
        ordered = sorted(self.findings, key=lambda finding: LEVELS.index(finding.level))
        lines += [f"  {finding.level}: {finding}" for finding in ordered]
        counts = [sum(finding.level == level for finding in self.findings) for level in LEVELS]
        lines += [", ".join(f"{count} {level}{'s' * (count != 1)}" for count, level in zip(counts, LEVELS))]
        return "\n".join(lines)


@dataclass(frozen=True)
class Reporter:
    """A file, or rows of it, with the report that collects its problems.

    Args:
        places: Locations of the rows.
        report: Collects the findings.

    Example:
        >>> table = Reporter(Locations("nodes.csv", "line", lambda rows: rows + 2), ValidationReport("folder", "table"))
        >>> table.error("missing-id", "the node has no id", [False, True])
        True
        >>> print(table.report.findings[0])
        nodes.csv, line 3: the node has no id
    """

    places: Locations
    report: ValidationReport

    @property
    def name(self) -> str:
        """Name of the file."""
        return self.places.file

    def error(self, code: str, message: str, rows: ArrayLike | None = None) -> bool:
        """Report an error in some rows (indices or a mask), or in the whole file. Return whether there are such rows.

        Without such rows, nothing is reported.
        """
        return self._add("error", code, message, rows)

    def warning(self, code: str, message: str, rows: ArrayLike | None = None) -> bool:
        """Report a warning. The arguments are those of :meth:`error`."""
        return self._add("warning", code, message, rows)

    def note(self, code: str, message: str, rows: ArrayLike | None = None) -> bool:
        """Report a note. The arguments are those of :meth:`error`."""
        return self._add("note", code, message, rows)

    def fail(self, code: str, message: str, rows: ArrayLike | None = None) -> NoReturn:
        """Report an error and raise it, because the data cannot be read any further."""
        self.report.fail(self.places.finding("error", code, message, rows))

    def _add(self, level: str, code: str, message: str, rows: ArrayLike | None) -> bool:
        if rows is not None and not len(rows := as_positions(rows)):
            return False
        self.report.add(self.places.finding(level, code, message, rows))
        return True


def as_positions(rows: ArrayLike) -> np.ndarray:
    """Convert a mask to indices."""
    rows = np.asarray(rows)
    return np.flatnonzero(rows) if rows.dtype == bool else rows


def subject(noun: str, names: Iterable[object], verb: str, verb_of_many: str, limit: int = 5) -> str:
    """Return subject and verb of a sentence about one or many named things.

    Example:
        >>> subject("column", ["a"], "is", "are"), subject("column", ["a", "b"], "is", "are")
        ("column 'a' is", "columns 'a', 'b' are")
    """
    names = list(names)
    if len(names) == 1:
        return f"{noun} {quoted(names, limit)} {verb}"
    return f"{noun}{'es' if noun.endswith('s') else 's'} {quoted(names, limit)} {verb_of_many}"


def quoted(values: Iterable[object], limit: int = 5) -> str:
    """Quote the first values and count the others.

    Example:
        >>> quoted(["a", "b", "c"], limit=2)
        "'a', 'b' and 1 more"
    """
    values = list(values)
    text = ", ".join(map(repr, values[:limit]))
    return text if len(values) <= limit else f"{text} and {len(values) - limit:,} more"


def _format_statistic(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)
