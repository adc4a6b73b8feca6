"""Block reader for tables larger than memory. The blocks have the same rows as :meth:`TableFile.read`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np
import polars as pl

from tgnn.data.tables.scan import TextLayout
from tgnn.data.tables.table_file import SAMPLE, TableData, TableFile, all_numbers, empty_to_null
from tgnn.data.validation.report import Locations, ValidationReport
from tgnn.utils.progress import Tick, no_tick

BLOCK = 1 << 25
"""Size of a block of a text file, in bytes."""
ROWS = 1 << 19
"""Number of rows in a block of a Parquet file. Tables with lists have an eighth of it."""
_END, _QUOTE = b'\n"'


def read_blocks(
    source: TableFile,
    columns: Sequence[str],
    text: Collection[str],
    report: ValidationReport,
    tick: Tick = no_tick,
    block: int | None = None,
) -> Iterator[TableData]:
    """Yield some columns of a table in blocks. Line numbers of a block are those of the whole file.

    Args:
        source: The table file, not compressed.
        columns: Columns to read.
        text: Columns to read as strings. Other columns become float64 if their cells are numbers.
        report: Collects errors.
        tick: Called with the number of rows of each block.
        block: Size of a block: bytes of a text file, rows of a Parquet file.
    """
    if source.layout is None:
        frames = _parquet(source.path, columns, report, block or ROWS)
        places = Locations(source.name, "row", lambda rows: rows + 1)
    else:
        frames = _text(source, source.layout, columns, text, report, block or BLOCK)
        places = source.layout.places(source.name)
    before = 0
    for frame in frames:
        if not frame.height:  # the block has only empty lines
            continue
        yield TableData(source.name, frame, _shifted(places, before))
        before += frame.height
        tick(frame.height)


def count_rows(source: TableFile) -> int:
    """Return the number of rows of a table."""
    if source.layout is None:
        return int(pl.scan_parquet(source.path, glob=False).select(pl.len()).collect().item())
    return source.layout.rows - 1 - len(source.layout.blank)


def _shifted(places: Locations, before: int) -> Locations:
    return Locations(places.file, places.unit, lambda rows: places.numbers(rows + before))


def _parquet(path: Path, columns: Sequence[str], report: ValidationReport, rows: int) -> Iterator[pl.DataFrame]:
    table = pl.scan_parquet(path, glob=False).select(columns)
    if any(kind.is_nested() for kind in table.collect_schema().values()):
        rows = max(1, rows // 8)
    try:
        for begin in range(0, int(table.select(pl.len()).collect().item()), rows):
            frame = table.slice(begin, rows).collect()
            yield empty_to_null(frame.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String)), strip=True)
    except pl.exceptions.PolarsError as error:
        report.fail(Locations(path.name).finding("error", "unreadable", str(error).splitlines()[0]))


def _text(
    source: TableFile,
    layout: TextLayout,
    columns: Sequence[str],
    text: Collection[str],
    report: ValidationReport,
    block: int,
) -> Iterator[pl.DataFrame]:
    assert isinstance(source.content, Path)
    content = np.memmap(source.content, dtype=np.uint8, mode="r")
    try:
        sample = pl.read_csv(
            source.content,
            separator=layout.separator,
            infer_schema=False,
            new_columns=source.columns,
            n_rows=SAMPLE,
            glob=False,
        )
    except pl.exceptions.PolarsError:  # the scan counted rows and fields, so only quotation marks can be wrong
        _fail_for_quotes(source.name, report)
    numbers = [name for name in columns if name not in text and all_numbers(sample[name])]
    before = 1  # rows of the file before this block; the header is one
    for piece, ends in _pieces(content, block):
        blank = layout.blank[(layout.blank >= before) & (layout.blank < before + len(ends))] - before
        lines = _without(piece, ends, blank).tobytes()  # polars skips some empty lines, but not all
        frame = _parse(lines, source.columns, columns, numbers, layout, report, source.name)
        if frame.height != len(ends) - len(blank):
            _fail_for_quotes(source.name, report)
        before += len(ends)
        yield empty_to_null(frame, strip=layout.spaces)


def _parse(
    piece: bytes,
    names: Sequence[str],
    columns: Sequence[str],
    numbers: Collection[str],
    layout: TextLayout,
    report: ValidationReport,
    name: str,
) -> pl.DataFrame:
    for wanted in (numbers, ()):  # a block with an invalid number is read as strings; the encoder reports it
        try:
            return pl.read_csv(
                piece,
                has_header=False,
                separator=layout.separator,
                schema={column: pl.Float64 if column in wanted else pl.String for column in names},
                columns=sorted(names.index(column) for column in columns),
            ).select(columns)
        except pl.exceptions.NoDataError:
            return pl.DataFrame(schema={column: pl.Float64 if column in wanted else pl.String for column in columns})
        except pl.exceptions.PolarsError:
            continue
    _fail_for_quotes(name, report)


def _fail_for_quotes(name: str, report: ValidationReport) -> NoReturn:
    text = 'unbalanced quotation mark ("); run tgnn data check to see its line'
    report.fail(Locations(name).finding("error", "wrong-quotes", text))


def _without(piece: np.ndarray, ends: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Remove empty lines, which have one or two bytes."""
    if not len(rows):
        return piece
    kept = np.ones(len(piece), dtype=bool)
    kept[ends[rows] - 1] = False
    kept[ends[rows - 1] * (rows > 0)] = False  # from the end of the line before
    return piece[kept]


def _pieces(content: np.ndarray, block: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield blocks of whole rows below the header, and the end of each row. Quoted line ends do not count."""
    start, size = int(np.argmax(content[: 1 << 22] == _END)) + 1, block
    if content[start - 1] != _END:  # the file has only a header
        return
    while start < len(content):
        piece = np.asarray(content[start : start + size])
        is_end, is_quote = piece == _END, piece == _QUOTE
        if is_quote.any():
            is_end &= np.cumsum(is_quote, dtype=np.int32) % 2 == 0
        ends = np.flatnonzero(is_end)
        last = start + size >= len(content)
        if not len(ends) and not last:
            size *= 2  # the line is longer than a block
            continue
        ends += 1
        if last and (not len(ends) or ends[-1] < len(piece)):  # the last line has no line end
            ends = np.append(ends, len(piece))
        yield piece[: ends[-1]], ends
        start, size = start + int(ends[-1]), block
