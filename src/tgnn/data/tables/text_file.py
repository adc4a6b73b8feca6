"""Structure check of a CSV or TSV file before polars parses it.

Polars fills up a row that is too short, and its errors name no line. This scan counts the fields of every row instead.
It works on arrays of bytes and takes 0.15 s for ten million lines (140 MB), which polars then parses in 0.45 s.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from tgnn.data.validation.report import Reporter, ValidationReport, quoted

INDEX = "(index)"
"""Name given to a first column without a name, as pandas writes its index."""
_CHUNK = 1 << 18  # bytes; fits into the processor's cache
_LARGE_CHUNK = 1 << 22
_END, _RETURN, _SPACE, _QUOTE = b'\n\r "'


@dataclass(frozen=True)
class TextLayout:
    """Rows and lines of a text file. The header is row 0, and empty lines (``blank``) are rows, too.

    ``breaks`` has the row of every line end within quotation marks. ``spaces`` is whether spaces may have to be
    stripped.
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

    def line_numbers(self) -> Callable[[np.ndarray], np.ndarray]:
        """Return a function to the line numbers of rows below the header, not counting empty lines as rows."""
        if not len(self.blank):
            return lambda rows: self.lines(rows + 1)
        kept = np.flatnonzero(self.kept()) + 1
        return lambda rows: self.lines(kept[rows])


def scan(content: np.ndarray, name: str, report: ValidationReport) -> TextLayout:
    """Scan the bytes of a file and raise an error if it cannot be read."""
    file = Reporter(report, name, "line", lambda lines: lines + 1)
    if not (content[:_CHUNK] > _SPACE).any():
        file.fail("empty-file", "the file is empty; the first line must contain the column names")
    _check_bytes(content, file)
    columns, separator = _read_header(content, file)
    layout, wrong, counts, open_quote = _walk(content, columns, separator)
    if open_quote:
        fail_with_wrong_quotes(content, separator, name, report)
    rows = Reporter(report, name, "line", layout.lines)
    if len(wrong):
        least, most = int(counts.min()), int(counts.max())
        fields = f"{least} field{'s' * (least != 1)}" if least == most else f"{least} to {most} fields"
        rows.fail("wrong-field-count", f"{fields}, but the header has {len(columns)} columns", wrong)
    at_end = layout.blank == layout.rows - np.arange(len(layout.blank), 0, -1)  # not reported
    rows.warning("empty-line", "empty line ignored", layout.blank[~at_end])
    return layout


def fail_with_wrong_quotes(content: np.ndarray, separator: str, name: str, report: ValidationReport) -> NoReturn:
    """Locate unbalanced quotation marks: those within a field, else the first line with an odd number of them."""
    ends = np.flatnonzero(content == _END)
    within_field = re.compile(rb'[^%b"\r\n]"[^%b"\r\n]' % (separator.encode(), separator.encode()))
    positions = [match.start() for match in within_field.finditer(content.data)]
    wrong = np.unique(np.searchsorted(ends, positions))
    if not len(wrong):
        lines, counts = np.unique(np.searchsorted(ends, np.flatnonzero(content == _QUOTE)), return_counts=True)
        wrong = lines[counts % 2 == 1][:1]
    text = 'unbalanced quotation mark ("); write "" for a quotation mark in a field, and quote the whole field'
    Reporter(report, name, "line", lambda lines: lines + 1).fail("wrong-quotes", text, wrong if len(wrong) else None)


def _check_bytes(content: np.ndarray, file: Reporter) -> None:
    """Raise an error if the file is not UTF-8 text with LF or CRLF line ends."""
    start = content[:_LARGE_CHUNK]
    if start.tobytes().startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        file.fail("not-utf-8", "the file is encoded in UTF-16; save it as UTF-8")
    if start.tobytes().startswith(codecs.BOM_UTF8):
        file.note("byte-order-mark", "the file starts with a byte order mark, which is ignored")
    if (start == 0).any():
        file.fail("not-text", "the file contains zero bytes and is not a text file")
    if not (start == _END).any() and (start == _RETURN).any():
        file.fail("line-ends", "the lines end in CR only; save the file with LF or CRLF line ends")
    if content.max() < 0x80:
        return
    decoder = codecs.getincrementaldecoder("utf-8")()
    for begin in range(0, len(content), _LARGE_CHUNK):
        end = min(begin + _LARGE_CHUNK, len(content))
        try:
            decoder.decode(content[begin:end].tobytes(), final=end == len(content))
        except UnicodeDecodeError as error:
            offset = end - len(error.object) + error.start  # the decoder may have kept bytes of the chunk before
            byte = int(content[offset])
            text = f"the byte 0x{byte:02X} is not UTF-8 ({chr(byte)!r} in Latin-1); save the file as UTF-8"
            file.fail("not-utf-8", text, [np.count_nonzero(content[:offset] == _END)])


def _read_header(content: np.ndarray, file: Reporter) -> tuple[list[str], str]:
    """Read the column names and detect the separator: the most frequent of comma, semicolon and tab."""
    line = content[:_LARGE_CHUNK].tobytes().partition(b"\n")[0].decode("utf-8-sig").rstrip("\r")
    separator = max(",;\t", key=line.count)  # a comma if none of them occurs
    raw = next(csv.reader([line], delimiter=separator), [])
    columns = [name.strip() for name in raw]
    if not any(columns):
        file.fail("no-header", "the first line is empty; it must contain the column names", [0])
    if all(map(_is_number, columns)):
        text = f"the first line is {line[:40]!r}, which are numbers; add a line of column names before it"
        file.fail("no-header", text, [0])
    if "" in columns[1:]:
        file.fail("no-header", f"column {columns.index('', 1) + 1} has no name", [0])
    if spaced := [before for before, after in zip(raw, columns) if before != after]:
        file.note("header-spaces", f"spaces around column names are removed: {quoted(spaced)}", [0])
    columns[0] = columns[0] or INDEX
    if twice := sorted(name for name, count in Counter(columns).items() if count > 1):
        file.fail("duplicate-column", f"duplicate column name {quoted(twice)}", [0])
    return columns, separator


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _walk(content: np.ndarray, columns: list[str], separator: str) -> tuple[TextLayout, np.ndarray, np.ndarray, bool]:
    """Return the layout, the rows with a wrong number of fields, these numbers, and whether a quotation is open."""
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
