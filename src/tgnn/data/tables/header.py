"""The bytes and the first line of a text file: whether it is text, and what its columns are called."""

from __future__ import annotations

import codecs
import csv

import numpy as np

from tgnn.data.validation.report import Locations, ValidationReport, quoted

INDEX = "(index)"
"""What a first column without a name is called here: pandas writes its index so."""
_CHUNK = 1 << 22
_END, _RETURN = b"\n\r"


def check_bytes(content: np.ndarray, here: Locations, report: ValidationReport) -> None:
    """Raises what makes it no text in UTF-8.

    Args:
        content: The bytes of the file.
        here: Its lines, counted from 0.
        report: Takes what is odd.
    """
    start = content[:4].tobytes()
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        report.fail(here.finding("error", "not-utf-8", "the file is in UTF-16; save it as UTF-8"))
    if start.startswith(codecs.BOM_UTF8):
        report.add(here.finding("note", "byte-order-mark", "the file starts with a byte order mark: left out"))
    if (content[:_CHUNK] == 0).any():
        report.fail(here.finding("error", "not-text", "there are zero bytes in it: this is no text file"))
    if not (content[:_CHUNK] == _END).any() and (content[:_CHUNK] == _RETURN).any():
        report.fail(here.finding("error", "line-ends", "its lines end in CR alone; save it with LF or CRLF"))
    if content.max() >= 0x80:
        _check_utf8(content, here, report)


def _check_utf8(content: np.ndarray, here: Locations, report: ValidationReport) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(content), _CHUNK):
        end = min(start + _CHUNK, len(content))
        try:
            decoder.decode(content[start:end].tobytes(), final=end == len(content))
        except UnicodeDecodeError as error:
            place = end - len(error.object) + error.start  # its bytes begin with what the chunk before left over
            byte = int(content[place])
            line = np.array([np.count_nonzero(content[:place] == _END)])
            text = f"the byte 0x{byte:02X} is not UTF-8 (in Latin-1 it is {chr(byte)!r}); save the file as UTF-8"
            report.fail(here.finding("error", "not-utf-8", text, line))


def read_header(content: np.ndarray, here: Locations, report: ValidationReport) -> tuple[list[str], str]:
    """Names of the columns, and what stands between them: the mark that the first line has most of.

    Args:
        content: The bytes of the file.
        here: Its lines, counted from 0.
        report: Takes what is odd.

    Example:
        >>> read_header(np.frombuffer(b"id; age", dtype=np.uint8), Locations(), ValidationReport("", ""))
        (['id', 'age'], ';')
    """
    line = content[:_CHUNK].tobytes().partition(b"\n")[0].decode("utf-8-sig").rstrip("\r")
    separator = max(",;\t", key=line.count)  # the first of them where there is none at all
    raw = next(csv.reader([line], delimiter=separator), [])
    columns = [name.strip() for name in raw]
    first = np.array([0])
    if not any(columns):
        report.fail(here.finding("error", "no-header", "the first line is empty; it must name the columns", first))
    if all(map(_is_number, columns)):
        text = f"the first line is {line[:40]!r}, which are no names: put a line that names the columns before it"
        report.fail(here.finding("error", "no-header", text, first))
    if "" in columns[1:]:
        text = f"column {columns.index('', 1) + 1} has no name"
        report.fail(here.finding("error", "no-header", text, first))
    if columns != raw:
        spaced = quoted(a for a, b in zip(raw, columns) if a != b)
        text = f"spaces around names of columns are left out: {spaced}"
        report.add(here.finding("note", "header-spaces", text, first))
    columns[0] = columns[0] or INDEX
    twice = sorted({name for name in columns if columns.count(name) > 1})
    if twice:
        report.fail(here.finding("error", "duplicate-column", f"two columns are called {quoted(twice)}", first))
    return columns, separator


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
