"""Reader of one table file: CSV, TSV (also gzipped) or Parquet."""

from __future__ import annotations

import gzip
import shutil
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
import polars as pl

from tgnn.data.tables.scan import TextLayout, scan, wrong_quotes
from tgnn.data.validation.report import Locations, ValidationReport

SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")
SAMPLE = 1000
"""Number of rows from which numeric columns are detected."""


@dataclass(frozen=True)
class TableData:
    """Rows of a table in memory.

    Args:
        name: Name of the file.
        frame: Text is ``String``, numbers are numbers, empty cells are null.
        places: Names of the rows in the report, such as line numbers.
    """

    name: str
    frame: pl.DataFrame
    places: Locations

    def check_scalar_columns(self, columns: Mapping[str, str], report: ValidationReport) -> None:
        """Report id, split and weight columns that contain lists, which Parquet files may have.

        Args:
            columns: Column names by role.
            report: Collects errors.
        """
        for role, column in columns.items():
            dtype = self.frame.schema[column]
            is_time_weight = role == "weight" and dtype.is_temporal()
            if dtype.is_nested() or dtype in (pl.Binary, pl.Object, pl.Duration) or is_time_weight:
                text = f"column {column!r} has the type {dtype}, but the {role} must be a string or a number"
                report.add(self.places.finding("error", "unknown-kind", text))


@dataclass(frozen=True)
class TableFile:
    """A table file whose header has been read, but not its rows.

    Args:
        path: Path of the file.
        columns: Column names.
        content: Unpacked bytes or path of a text file; ``None`` for Parquet.
        layout: Rows and lines of a text file; ``None`` for Parquet.
    """

    path: Path
    columns: list[str]
    content: Path | bytes | None = None
    layout: TextLayout | None = None

    @property
    def name(self) -> str:
        """Name of the file."""
        return self.path.name

    def read(self, text: Collection[str], report: ValidationReport) -> TableData:
        """Read all rows.

        Args:
            text: Columns to read as strings. Other columns become float64 if their cells are numbers.
            report: Collects errors and warnings.
        """
        if self.layout is None:
            frame, places = _read_parquet(self.path, report), Locations(self.name, "row", lambda rows: rows + 1)
        else:
            frame, places = self._read_text(text, self.layout, report), self.layout.places(self.name)
        if not frame.height:
            report.add(places.finding("warning", "no-rows", "the table has no rows"))
        return TableData(self.name, frame, places)

    def _read_text(self, text: Collection[str], layout: TextLayout, report: ValidationReport) -> pl.DataFrame:
        try:
            sample = self._parse([], layout, rows=SAMPLE)
            numbers = [name for name in self.columns if name not in text and all_numbers(sample[name])]
            try:
                frame = self._parse(numbers, layout)
            except pl.exceptions.ComputeError:  # a later row has a string; the encoder reports it
                frame = self._parse([], layout)
        except pl.exceptions.PolarsError:  # the scan counted rows and fields, so only quotation marks can be wrong
            self._fail_for_quotes(layout, report)
        if frame.height == layout.rows - 1 and len(layout.blank):
            frame = frame.filter(pl.Series(layout.kept()))
        if frame.height != layout.rows - 1 - len(layout.blank):
            self._fail_for_quotes(layout, report)
        return empty_to_null(frame, strip=layout.spaces)

    def _fail_for_quotes(self, layout: TextLayout, report: ValidationReport) -> NoReturn:
        raw = self.content if isinstance(self.content, bytes) else self.path.read_bytes()
        here = Locations(self.name, "line", lambda lines: lines + 1)
        report.fail(wrong_quotes(np.frombuffer(raw, dtype=np.uint8), layout.separator, here))

    def _parse(self, numbers: Collection[str], layout: TextLayout, rows: int | None = None) -> pl.DataFrame:
        assert self.content is not None
        return pl.read_csv(
            self.content,
            separator=layout.separator,
            schema_overrides=[pl.Float64 if name in numbers else pl.String for name in self.columns],
            new_columns=self.columns,
            n_rows=rows,
            glob=False,
        )


def find(folder: Path, stem: str) -> Path | None:
    """Return the table file of that name with any supported suffix. Two such files are an error.

    Args:
        folder: Folder of the tables.
        stem: Name without suffix, such as ``"nodes"``.
    """
    there = [path for suffix in SUFFIXES if (path := folder / f"{stem}{suffix}").is_file()]
    if len(there) > 1:
        raise ValueError(f"{folder} has both {there[0].name} and {there[1].name}. Remove one of them.")
    return there[0] if there else None


def open_table_file(path: Path, report: ValidationReport) -> TableFile:
    """Read the header of a table file and scan a text file for errors.

    Args:
        path: Path of the file.
        report: Collects warnings and notes. An unreadable file raises an error.
    """
    here = Locations(path.name)
    if path.name.endswith(".parquet"):
        try:
            with path.open("rb") as file:  # polars would expand wildcards in a path
                columns = list(pl.read_parquet_schema(file))
        except pl.exceptions.PolarsError:
            report.fail(here.finding("error", "unreadable", "the file is not a Parquet file"))
        return TableFile(path, columns)
    if not path.stat().st_size:
        report.fail(
            here.finding("error", "empty-file", "the file is empty; the first line must contain the column names")
        )
    if path.name.endswith(".gz"):
        try:
            packed = gzip.decompress(path.read_bytes())
        except (OSError, EOFError, zlib.error) as error:
            report.fail(here.finding("error", "unreadable", f"the file cannot be decompressed: {error}"))
        layout = scan(np.frombuffer(packed, dtype=np.uint8), path.name, report)
        return TableFile(path, layout.columns, packed, layout)
    layout = scan(np.asarray(np.memmap(path, dtype=np.uint8, mode="r")), path.name, report)
    return TableFile(path, layout.columns, path, layout)


def decompress(path: Path, folder: Path, report: ValidationReport) -> Path:
    """Decompress a gzipped table into a folder and return its path.

    Args:
        path: Path of the compressed file.
        folder: Folder for the decompressed file.
        report: Collects errors.
    """
    target = folder / path.name.removesuffix(".gz")
    try:
        with gzip.open(path) as packed, target.open("wb") as file:
            shutil.copyfileobj(packed, file, 1 << 22)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        report.fail(Locations(path.name).finding("error", "unreadable", f"the file cannot be decompressed: {error}"))
    return target


def _read_parquet(path: Path, report: ValidationReport) -> pl.DataFrame:
    try:
        frame = pl.read_parquet(path, glob=False)
    except pl.exceptions.PolarsError as error:
        report.fail(Locations(path.name).finding("error", "unreadable", str(error).splitlines()[0]))
    return empty_to_null(frame.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String)), strip=True)


def empty_to_null(frame: pl.DataFrame, strip: bool) -> pl.DataFrame:
    """Replace empty strings by null."""
    words = pl.col(pl.String).str.strip_chars() if strip else pl.col(pl.String)
    return frame.with_columns(pl.when(words != "").then(words).name.keep())


def all_numbers(values: pl.Series) -> bool:
    """Whether all cells that are not empty are numbers. An empty column is numeric."""
    return values.cast(pl.Float64, strict=False).null_count() == values.null_count()
