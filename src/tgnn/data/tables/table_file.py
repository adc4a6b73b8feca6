"""Reader of one table file: CSV, TSV (also gzipped) or Parquet.

Polars reads the rows, in blocks or all at once. :func:`~tgnn.data.tables.text_file.scan` checks a text file before
that, because polars fills up a row that is too short and reports no line numbers.
"""

from __future__ import annotations

import gzip
import shutil
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl

from tgnn.data.tables.columns import ColumnRoles
from tgnn.data.tables.text_file import TextLayout, fail_with_wrong_quotes, scan
from tgnn.data.validation.report import Reporter, ValidationReport, quoted
from tgnn.utils.progress import Tick, no_tick
from tgnn.utils.read import check_regular

SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")
BLOCK_CELLS = 1 << 21
"""Number of cells in a block. A block needs about 50 MB."""
_CELLS_OF_LIST = 32
"""Assumed length of a list in a Parquet file, which counts as this many cells."""
_SAMPLE = 1000
"""Number of rows from which numeric columns are detected."""
_NO_ROLES = ColumnRoles()


@dataclass(frozen=True, kw_only=True)
class Table(Reporter):
    """Rows of a table in memory: all of them, or one block."""

    frame: pl.DataFrame
    """Text is ``String``, numbers are numbers, empty cells are null."""
    roles: ColumnRoles = _NO_ROLES

    @cached_property
    def series(self) -> dict[str, pl.Series]:
        """Columns by name. A polars data frame would search all of its names at each access."""
        return {column.name: column for column in self.frame.get_columns()}

    def column(self, role: str) -> pl.Series:
        """Return the column with that role, such as ``"id"``."""
        return self.series[self.roles.by_role[role]]

    def check_scalar_columns(self, columns: Mapping[str, str]) -> None:
        """Raise an error if a column with a role contains lists, which Parquet files may have."""
        for role, column in columns.items():
            dtype = self.series[column].dtype
            is_time_weight = role == "weight" and dtype.is_temporal()
            if dtype.is_nested() or dtype in (pl.Binary, pl.Object, pl.Duration) or is_time_weight:
                text = f"column {column!r} has the type {dtype}, but the {role} must be a string or a number"
                self.error("unknown-kind", text)
        self.report.raise_for_errors()


@dataclass(frozen=True, kw_only=True)
class TableFile(Reporter):
    """A table file whose header has been read, but not its rows."""

    path: Path
    columns: list[str]
    content: Path | bytes | None = None
    """Unpacked bytes or path of a text file; ``None`` for Parquet."""
    layout: TextLayout | None = None
    """Rows and lines of a text file; ``None`` for Parquet."""
    roles: ColumnRoles = _NO_ROLES

    def count_rows(self) -> int:
        """Return the number of rows."""
        if self.layout is None:
            return int(pl.scan_parquet(self.path, glob=False).select(pl.len()).collect().item())
        return self.layout.rows - 1 - len(self.layout.blank)

    def is_unique(self, column: str) -> bool:
        """Whether the values of a column are distinct and none is missing."""
        (table,) = self._tables([column], [column], None)
        values = table.frame[column]
        return not values.dtype.is_nested() and not values.null_count() and values.n_unique() == len(values)

    def read(self, columns: Sequence[str] | None = None, text: Collection[str] | None = None) -> Table:
        """Read all rows as one block.

        Columns in ``text`` become strings, others float64 if their cells are numbers. Default: what their roles say.
        """
        (table,) = self._tables(self.columns if columns is None else columns, text, None)
        if not table.frame.height:
            self.warning("no-rows", "the table has no rows")
        return table

    def read_blocks(
        self, columns: Sequence[str], tick: Tick = no_tick, block_cells: int = BLOCK_CELLS
    ) -> Iterator[Table]:
        """Yield columns in blocks of rows. The type of a column may differ between blocks."""
        for table in self._tables(columns, None, block_cells):
            if table.frame.height:  # some blocks have only empty lines
                yield table
                tick(table.frame.height)

    def _tables(self, columns: Sequence[str], text: Collection[str] | None, cells: int | None) -> Iterator[Table]:
        """Read all rows. Locations of a block are lines or rows of the whole file."""
        layout, before = self.layout, 0
        unit, numbers = ("row", _count_from_1) if layout is None else ("line", layout.line_numbers())
        present = set(columns)
        scalar = {role: column for role, column in self.roles.by_role.items() if column in present}
        try:
            for frame in self._frames(columns, self.roles.text() if text is None else set(text), cells):
                frame = _empty_to_null(frame, strip=layout is None or layout.spaces)
                table = Table(self.report, self.name, unit, _shifted(numbers, before), frame=frame, roles=self.roles)
                table.check_scalar_columns(scalar)
                yield table
                before += frame.height
        except pl.exceptions.PolarsError as error:
            if layout is None:
                self.fail("unreadable", str(error).splitlines()[0])
            before = -1
        if layout is not None and before != self.count_rows():
            # The scan counted rows and fields, so only quotation marks can be wrong.
            fail_with_wrong_quotes(_bytes_of(self.content), layout.separator, self.name, self.report)

    def _frames(self, columns: Sequence[str], text: set[str], cells: int | None) -> Iterator[pl.DataFrame]:
        if self.layout is None:
            rows = pl.scan_parquet(self.path, glob=False).select(columns)
            yield from _collect(rows.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String)), cells)
            return
        kept = pl.Series(self.layout.kept()) if len(self.layout.blank) else None
        begin = 0
        for numeric in (self._numeric_columns(columns, text), set[str]()):
            try:
                for frame in _collect(self._scan_text(numeric).select(columns).slice(begin), cells):
                    # Polars reads an empty line as a row of nulls.
                    yield frame if kept is None else frame.filter(kept[begin : begin + frame.height])
                    begin += frame.height
                return
            except pl.exceptions.PolarsError:
                if not numeric:
                    raise
                # A cell is not a number, which the encoder reports. The remaining rows are read as strings.

    def _numeric_columns(self, columns: Sequence[str], text: set[str]) -> set[str]:
        """Return the columns without a string in the first rows, except for text columns.

        Polars parses them as numbers, which is faster than to cast strings. The conversion of a table with 500 columns
        takes 4.9 s of CPU time instead of 6.2 s.
        """
        sample = self._scan_text(set()).select(columns).head(_SAMPLE).collect().get_columns()
        return {
            column.name
            for column in sample
            if column.name not in text and column.cast(pl.Float64, strict=False).null_count() == column.null_count()
        }

    def _scan_text(self, numeric: set[str]) -> pl.LazyFrame:
        assert self.layout is not None
        assert self.content is not None
        return pl.scan_csv(
            self.content,
            separator=self.layout.separator,
            schema_overrides=[pl.Float64 if column in numeric else pl.String for column in self.columns],
            new_columns=self.columns,
            glob=False,
        )


def find(folder: Path, stem: str) -> Path | None:
    """Return the table file of that name, such as ``"nodes"``, in any case and format. Two files are an error."""
    names = {f"{stem}{suffix}" for suffix in SUFFIXES}
    there = sorted(path for path in folder.iterdir() if path.name.lower() in names)
    if len(there) > 1:
        raise ValueError(f"{folder} has both {there[0].name} and {there[1].name}. Remove one of them.")
    for path in there:
        check_regular(path)
    return there[0] if there else None


def open_table_file(path: Path, report: ValidationReport, scratch: Path | None = None) -> TableFile:
    """Read the header of a table file and scan a text file for errors. An unreadable file raises an error.

    A gzipped file is decompressed in ``scratch``, else in memory.
    """
    here = Reporter(report, path.name)
    if path.name.lower().endswith(".parquet"):
        try:
            with path.open("rb") as file:  # polars would expand wildcards in a path
                return TableFile(report, path.name, path=path, columns=list(pl.read_parquet_schema(file)))
        except pl.exceptions.PolarsError:
            here.fail("unreadable", "the file is not a Parquet file")
    if not path.stat().st_size:
        here.fail("empty-file", "the file is empty; the first line must contain the column names")
    content: Path | bytes = path
    if path.name.lower().endswith(".gz"):
        try:
            content = _decompress(path, scratch)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            here.fail("unreadable", f"the file cannot be decompressed: {error}")
    layout = scan(_bytes_of(content), path.name, report)
    return TableFile(report, path.name, path=path, columns=layout.columns, content=content, layout=layout)


def examples(values: pl.Series, rows: pl.Series | np.ndarray) -> str:
    """Quote the first distinct values in some rows, given as a mask."""
    return quoted(values.filter(pl.Series(rows)).unique(maintain_order=True))


def _decompress(path: Path, scratch: Path | None) -> Path | bytes:
    """Decompress a file into a folder and return its path, or into memory and return its bytes."""
    if scratch is None:
        return gzip.decompress(path.read_bytes())
    target = scratch / path.name[: -len(".gz")]
    with gzip.open(path) as packed, target.open("wb") as file:
        shutil.copyfileobj(packed, file, 1 << 22)
    return target


def _bytes_of(content: Path | bytes | None) -> np.ndarray:
    if isinstance(content, Path) and content.stat().st_size:
        return np.asarray(np.memmap(content, dtype=np.uint8, mode="r"))
    return np.frombuffer(content if isinstance(content, bytes) else b"", dtype=np.uint8)


def _collect(rows: pl.LazyFrame, cells: int | None) -> Iterator[pl.DataFrame]:
    """Collect rows in blocks of at most this many cells, or in one block."""
    if cells is None:
        yield rows.collect()
        return
    width = sum(_CELLS_OF_LIST if dtype.is_nested() else 1 for dtype in rows.collect_schema().values())
    yield from rows.collect_batches(chunk_size=max(1, cells // max(1, width)), maintain_order=True)


def _count_from_1(rows: np.ndarray) -> np.ndarray:
    return rows + 1


def _shifted(numbers: Callable[[np.ndarray], np.ndarray], before: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda rows: numbers(rows + before)


def _empty_to_null(frame: pl.DataFrame, strip: bool) -> pl.DataFrame:
    """Replace empty strings by null."""
    strings = pl.col(pl.String).str.strip_chars() if strip else pl.col(pl.String)
    return frame.with_columns(pl.when(strings != "").then(strings).name.keep())
