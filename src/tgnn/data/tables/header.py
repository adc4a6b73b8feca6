"""Text encoding, header line and separator of a CSV or TSV file."""

from __future__ import annotations

import codecs
import csv

import numpy as np

from tgnn.data.validation.report import Locations, ValidationReport, quoted

INDEX = "(index)"
"""Name given to a first column without a name, as pandas writes its index."""
_CHUNK = 1 << 22
_END, _RETURN = b"\n\r"


def check_bytes(content: np.ndarray, here: Locations, report: ValidationReport) -> None:
    """Raise an error if the file is not UTF-8 text with LF or CRLF line ends.

    Args:
        content: The bytes of the file.
        here: Locations of its lines, counted from 0.
        report: Collects errors and notes.
    """
    start = content[:4].tobytes()
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        report.fail(here.finding("error", "not-utf-8", "the file is encoded in UTF-16; save it as UTF-8"))
    if start.startswith(codecs.BOM_UTF8):
        report.add(here.finding("note", "byte-order-mark", "the file starts with a byte order mark, which is ignored"))
    if (content[:_CHUNK] == 0).any():
        report.fail(here.finding("error", "not-text", "the file contains zero bytes and is not a text file"))
    if not (content[:_CHUNK] == _END).any() and (content[:_CHUNK] == _RETURN).any():
        report.fail(
            here.finding("error", "line-ends", "the lines end in CR only; save the file with LF or CRLF line ends")
        )
    if content.max() >= 0x80:
        _check_utf8(content, here, report)


def _check_utf8(content: np.ndarray, here: Locations, report: ValidationReport) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(content), _CHUNK):
        end = min(start + _CHUNK, len(content))
        try:
            decoder.decode(content[start:end].tobytes(), final=end == len(content))
        except UnicodeDecodeError as error:
            offset = end - len(error.object) + error.start  # the decoder may have kept bytes of the chunk before
            byte = int(content[offset])
            line = np.array([np.count_nonzero(content[:offset] == _END)])
            text = f"the byte 0x{byte:02X} is not UTF-8 ({chr(byte)!r} in Latin-1); save the file as UTF-8"
            report.fail(here.finding("error", "not-utf-8", text, line))


def read_header(content: np.ndarray, here: Locations, report: ValidationReport) -> tuple[list[str], str]:
    """Read the column names and detect the separator: the most frequent of comma, semicolon and tab.

    Args:
        content: The bytes of the file.
        here: Locations of its lines, counted from 0.
        report: Collects errors and notes.

    Example:
        >>> read_header(np.frombuffer(b"id; age", dtype=np.uint8), Locations(), ValidationReport("", ""))
        (['id', 'age'], ';')
    """
    line = content[:_CHUNK].tobytes().partition(b"\n")[0].decode("utf-8-sig").rstrip("\r")
    separator = max(",;\t", key=line.count)  # a comma if none of them occurs
    raw = next(csv.reader([line], delimiter=separator), [])
    columns = [name.strip() for name in raw]
    first = np.array([0])
    if not any(columns):
        report.fail(
            here.finding("error", "no-header", "the first line is empty; it must contain the column names", first)
        )
    if all(map(_is_number, columns)):
        text = f"the first line is {line[:40]!r}, which are numbers; add a line of column names before it"
        report.fail(here.finding("error", "no-header", text, first))
    if "" in columns[1:]:
        text = f"column {columns.index('', 1) + 1} has no name"
        report.fail(here.finding("error", "no-header", text, first))
    if columns != raw:
        spaced = quoted(a for a, b in zip(raw, columns) if a != b)
        text = f"spaces around column names are removed: {spaced}"
        report.add(here.finding("note", "header-spaces", text, first))
    columns[0] = columns[0] or INDEX
    twice = sorted({name for name in columns if columns.count(name) > 1})
    if twice:
        report.fail(here.finding("error", "duplicate-column", f"duplicate column name {quoted(twice)}", first))
    return columns, separator


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
