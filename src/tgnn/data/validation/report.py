"""Validation reports: the contents of a data set and every problem in it, with file, row and value."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

logger = logging.getLogger("tgnn")

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
        columns: The recognized columns of the table of nodes, graphs or molecules that has the labels: ``id``,
            ``label`` (a list) and ``split``. Empty for other formats.

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
    columns: dict[str, Any] = field(default_factory=dict)

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

    def log_warnings(self, name: str | None = None) -> None:
        """Log all warnings.

        Args:
            name: Name of the data, which stands before a warning that does not begin with it. ``None``: the last part
                of the path. Empty: no name.
        """
        name = Path(self.path).name if name is None else name
        for finding in self.findings:
            if finding.level == "warning":
                logger.warning("%s", finding if finding.file == name or not name else f"{name}: {finding}")

    def to_dict(self) -> dict[str, Any]:
        """Return the report as built-in types for JSON."""
        return {
            "path": self.path,
            "format": self.format,
            "ok": self.ok,
            "columns": self.columns,
            "statistics": self.statistics,
            "findings": [
                asdict(finding) | {"locations": list(finding.locations), "values": list(finding.values)}
                for finding in self.findings
            ],
        }

    def __str__(self) -> str:
        lines = [f"{self.path}: {self.format}"]
        if self.columns:
            lines.append(f"  columns: {', '.join(_describe_column(*item) for item in self.columns.items())}")
        lines += [f"  {name}: {_format_statistic(value)}" for name, value in self.statistics.items()]
        ordered = sorted(self.findings, key=lambda finding: LEVELS.index(finding.level))
        lines += [f"  {finding.level}: {finding}" for finding in ordered]
        counts = [sum(finding.level == level for finding in self.findings) for level in LEVELS]
        lines += [", ".join(f"{count} {level}{'s' * (count != 1)}" for count, level in zip(counts, LEVELS))]
        return "\n".join(lines)


@dataclass(frozen=True)
class Reporter:
    """A file or a graph in memory (without a name), with the report that collects its problems.

    Args:
        report: Collects the findings.
        name: Name of the file. Empty for data in memory.
        unit: Name of one location, e.g. ``"line"`` or ``"node"``.
        numbers: Function from array positions, which count from 0, to the locations that a user knows.
        merged: Whether several positions can have the same location, as the nodes of a graph do.
    """

    report: ValidationReport
    name: str = ""
    unit: str = "row"
    numbers: Callable[[np.ndarray], np.ndarray] = field(default=lambda positions: positions, repr=False)
    merged: bool = False

    def error(
        self, code: str, message: str, positions: ArrayLike | None = None, values: np.ndarray | None = None
    ) -> bool:
        """Report an error, unless ``positions`` is given and empty. Return whether it was reported.

        Args:
            code: Stable identifier of the problem.
            message: Description of the problem.
            positions: Indices, or a boolean mask over all positions. ``None`` if the finding concerns all of them.
            values: Value at every position. Those at ``positions`` are stored in the finding.
        """
        return self._add("error", code, message, positions, values)

    def warning(self, code: str, message: str, positions: ArrayLike | None = None) -> bool:
        """Report a warning. The arguments are those of :meth:`error`."""
        return self._add("warning", code, message, positions)

    def note(self, code: str, message: str, positions: ArrayLike | None = None) -> bool:
        """Report a note. The arguments are those of :meth:`error`."""
        return self._add("note", code, message, positions)

    def fail(self, code: str, message: str, positions: ArrayLike | None = None) -> NoReturn:
        """Report an error and raise it, because the data cannot be read any further."""
        self.error(code, message, positions)
        raise DataError(self.report)

    def _add(
        self, level: str, code: str, message: str, positions: ArrayLike | None, values: np.ndarray | None = None
    ) -> bool:
        if positions is None:
            self.report.add(Finding(level, code, message, self.name, self.unit))
            return True
        positions = np.asarray(positions)
        positions = np.flatnonzero(positions) if positions.dtype == bool else positions
        if not len(positions):
            return False
        numbers = np.unique(self.numbers(positions)) if self.merged else self.numbers(positions[:SHOWN])
        count = len(numbers) if self.merged else len(positions)
        shown = () if values is None else tuple(f"{value}" for value in values[positions[:SHOWN]])
        self.report.add(
            Finding(level, code, message, self.name, self.unit, tuple(numbers[:SHOWN].tolist()), count, shown)
        )
        return True


def subject(noun: str, names: Iterable[object], verb: str, verb_of_many: str, limit: int = 5) -> str:
    """Return subject and verb of a sentence about one or many named things: "columns 'a', 'b' are"."""
    names = list(names)
    if len(names) == 1:
        return f"{noun} {quoted(names, limit)} {verb}"
    return f"{noun}{'es' if noun.endswith('s') else 's'} {quoted(names, limit)} {verb_of_many}"


def quoted(values: Iterable[object], limit: int = 5) -> str:
    """Quote the first values and count the others: "'a', 'b' and 1 more"."""
    values = list(values)
    text = ", ".join(map(repr, values[:limit]))
    return text if len(values) <= limit else f"{text} and {len(values) - limit:,} more"


def _describe_column(role: str, columns: str | list[str] | None) -> str:
    """Return a role with its column or columns, for example "id 'name'" or "label not recognized"."""
    names = [columns] if isinstance(columns, str) else columns
    return f"{role} {quoted(names)}" if names else f"{role} not recognized"


def _format_statistic(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)
