"""Structure check of a CSV or TSV file before polars parses it.

Polars fills up a row that is too short, and its errors name no line. This scan counts the fields of every row instead.
It works on arrays of bytes and takes 0.15 s for ten million lines (140 MB), which polars then parses in 0.45 s.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tgnn.data.tables.header import check_bytes, read_header
from tgnn.data.validation.report import Finding, Locations, ValidationReport

_CHUNK = 1 << 18  # bytes; fits into the processor's cache
_END, _RETURN, _SPACE, _QUOTE = b'\n\r "'


@dataclass(frozen=True)
class TextLayout:
    """Rows and lines of a text file. The header is row 0.

    Args:
        columns: Column names.
        separator: Separator of the fields.
        rows: Number of rows, including the header and empty lines.
        blank: Rows that are empty lines.
        breaks: The row of every line end within quotation marks.
        spaces: Whether the file contains spaces, which may have to be stripped.
    """

    columns: list[str]
    separator: str
    rows: int
    blank: np.ndarray
    breaks: np.ndarray
    spaces: bool

    def lines(self, rows: np.ndarray) -> np.ndarray:
        """Return the line number at which each row starts."""
        return rows + 1 + np.searchsorted(self.breaks, rows)

    def kept(self) -> np.ndarray:
        """Return a mask of the rows below the header that are not empty lines."""
        kept = np.ones(self.rows, dtype=bool)
        kept[self.blank] = False
        return kept[1:]

    def places(self, name: str) -> Locations:
        """Return the line numbers of the rows below the header, without empty lines."""
        if not len(self.blank):
            return Locations(name, "line", lambda rows: self.lines(rows + 1))
        kept = np.flatnonzero(self.kept()) + 1
        return Locations(name, "line", lambda rows: self.lines(kept[rows]))


def scan(content: np.ndarray, name: str, report: ValidationReport) -> TextLayout:
    r"""Scan a file and raise an error if it cannot be read.

    Args:
        content: The bytes of the file.
        name: Name of the file for messages.
        report: Collects errors, warnings and notes.

    Example:
        >>> report = ValidationReport("", "")
        >>> scan(np.frombuffer(b"id,age\na,1\n\nb,2\n", dtype=np.uint8), "nodes.csv", report).blank.tolist()
        [2]
        >>> print(report.findings[0])
        nodes.csv, line 3: empty line ignored
    """
    here = Locations(name, "line", lambda lines: lines + 1)
    if not (content[:_CHUNK] > _SPACE).any():
        report.fail(
            here.finding("error", "empty-file", "the file is empty; the first line must contain the column names")
        )
    check_bytes(content, here, report)
    columns, separator = read_header(content, here, report)
    layout, wrong, counts, open_quote = _walk(content, columns, separator)
    if open_quote:
        report.fail(wrong_quotes(content, separator, name))
    of_rows = Locations(name, "line", layout.lines)
    if len(wrong):
        least, most = int(counts.min()), int(counts.max())
        fields = f"{least} field{'s' * (least != 1)}" if least == most else f"{least} to {most} fields"
        text = f"{fields}, but the header has {len(columns)} columns"
        report.fail(of_rows.finding("error", "wrong-field-count", text, wrong))
    # Empty lines at the end of the file are not reported.
    at_end = layout.blank == layout.rows - np.arange(len(layout.blank), 0, -1)
    inner = layout.blank[~at_end]
    if len(inner):
        report.add(of_rows.finding("warning", "empty-line", "empty line ignored", inner))
    return layout


def wrong_quotes(content: np.ndarray, separator: str, name: str) -> Finding:
    """Locate unbalanced quotation marks: those within a field, else the first line with an odd number of them.

    Args:
        content: The bytes of the file.
        separator: Separator of the fields.
        name: Name of the file for messages.
    """
    ends = np.flatnonzero(content == _END)
    within_field = re.compile(rb'[^%b"\r\n]"[^%b"\r\n]' % (separator.encode(), separator.encode()))
    positions = [match.start() for match in within_field.finditer(content.data)]
    wrong = np.unique(np.searchsorted(ends, positions))
    if not len(wrong):
        lines, counts = np.unique(np.searchsorted(ends, np.flatnonzero(content == _QUOTE)), return_counts=True)
        wrong = lines[counts % 2 == 1][:1]
    text = 'unbalanced quotation mark ("); write "" for a quotation mark in a field, and quote the whole field'
    return Locations(name, "line", lambda lines: lines + 1).finding("error", "wrong-quotes", text, wrong)


def _walk(content: np.ndarray, columns: list[str], separator: str) -> tuple[TextLayout, np.ndarray, np.ndarray, bool]:
    """Return the layout, the rows with a wrong number of fields, these numbers, and whether a quotation is not closed.

    The file is scanned in chunks that fit into the processor's cache. Only irregular rows are kept.
    """
    quoted = spaces = False
    row = loose = 0  # rows before this chunk, and separators of the row that this chunk continues
    last_end = -1
    wrong, fields, blank, breaks = ([np.empty(0, dtype=np.int64)] for _ in range(4))
    for start in range(0, len(content), _CHUNK):
        chunk = content[start : start + _CHUNK]
        is_end, is_quote = chunk == _END, chunk == _QUOTE
        is_mark = is_end | (chunk == ord(separator))
        if quoted or is_quote.any():
            inside = (np.cumsum(is_quote, dtype=np.int32) + quoted) % 2 == 1
            quoted = bool(inside[-1])
            is_mark &= ~inside
            broken = np.flatnonzero(is_end & inside)
            breaks.append(row + np.searchsorted(np.flatnonzero(is_end & ~inside), broken))
        marks = np.flatnonzero(is_mark)
        ends = np.flatnonzero(is_end[marks])  # indices into marks; the marks between two line ends are separators
        if start + len(chunk) == len(content) and chunk[-1] != _END and not quoted:  # the last line has no line end
            marks, ends = np.append(marks, len(chunk)), np.append(ends, len(marks))
        counts = np.diff(ends, prepend=-1 - loose)
        at = marks[ends]
        length = np.diff(at, prepend=last_end - start) - 1
        empty = length == 0
        if (short := np.flatnonzero(length == 1)).size:
            empty[short] = content[start + at[short] - 1] == _RETURN
        blank.append(np.flatnonzero(empty) + row)
        odd = np.flatnonzero((counts != len(columns)) & ~empty)
        wrong.append(odd + row)
        fields.append(counts[odd])
        row += len(ends)
        loose = len(marks) - 1 - int(ends[-1]) if len(ends) else loose + len(marks)
        last_end = start + int(at[-1]) if len(at) else last_end
        spaces = spaces or bool((chunk == _SPACE).any())
    layout = TextLayout(columns, separator, row, np.concatenate(blank), np.concatenate(breaks), spaces)
    return layout, np.concatenate(wrong), np.concatenate(fields), quoted
