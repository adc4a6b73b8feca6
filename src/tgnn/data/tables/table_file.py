"""One table in one file: CSV, TSV (also gzipped) or Parquet."""

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
from tgnn.data.validation.report import Places, Report

SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")
SAMPLE = 1000


@dataclass(frozen=True)
class Table:
    """Rows that were read.

    Args:
        name: Of the file.
        frame: Text as ``String``, numbers as numbers; what is empty is null.
        places: What its rows are called in a report.
    """

    name: str
    frame: pl.DataFrame
    places: Places

    def check_single(self, columns: Mapping[str, str], report: Report) -> None:
        """An error where an id, say, is a list: in a Parquet file it may be.

        Args:
            columns: By what they are for.
            report: Takes what is odd.
        """
        for role, column in columns.items():
            kind = self.frame.schema[column]
            no_weight = role == "weight" and kind.is_temporal()
            if kind.is_nested() or kind in (pl.Binary, pl.Object, pl.Duration) or no_weight:
                text = f"{column!r} holds {kind}, but the {role} must be one word or one number"
                report.add(self.places.finding("error", "unknown-kind", text))


@dataclass(frozen=True)
class TableFile:
    """A file whose header is known, and that is not read yet.

    Args:
        path: Of the file.
        columns: In its order.
        content: What a text file holds, or its path; ``None``: it is Parquet.
        layout: Of a text file.
    """

    path: Path
    columns: list[str]
    content: Path | bytes | None = None
    layout: TextLayout | None = None

    @property
    def name(self) -> str:
        return self.path.name

    def read(self, text: Collection[str], report: Report) -> Table:
        """Reads the rows.

        Args:
            text: Columns that stay as they are written; in others, what looks like numbers is read as float32.
            report: Takes what is odd.
        """
        if self.layout is None:
            frame, places = _read_parquet(self.path, report), Places(self.name, "row", lambda rows: rows + 1)
        else:
            frame, places = self._read_text(text, self.layout, report), self.layout.places(self.name)
        if not frame.height:
            report.add(places.finding("warning", "no-rows", "there are no rows below the header"))
        return Table(self.name, frame, places)

    def _read_text(self, text: Collection[str], layout: TextLayout, report: Report) -> pl.DataFrame:
        try:
            sample = self._parse([], layout, rows=SAMPLE)
            numbers = [name for name in self.columns if name not in text and all_numbers(sample[name])]
            try:
                frame = self._parse(numbers, layout)
            except pl.exceptions.ComputeError:  # further down there is a word: who takes the column will name it
                frame = self._parse([], layout)
        except pl.exceptions.PolarsError:  # rows and fields have been counted: what is left are quotation marks
            self._fail_for_quotes(layout, report)
        if frame.height == layout.rows - 1 and len(layout.blank):
            frame = frame.filter(pl.Series(layout.kept()))
        if frame.height != layout.rows - 1 - len(layout.blank):
            self._fail_for_quotes(layout, report)
        return without_empty(frame, strip=layout.spaces)

    def _fail_for_quotes(self, layout: TextLayout, report: Report) -> NoReturn:
        raw = self.content if isinstance(self.content, bytes) else self.path.read_bytes()
        here = Places(self.name, "line", lambda lines: lines + 1)
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
    """The file of that name, whatever its suffix; two of them are an error.

    Args:
        folder: Where it should be.
        stem: Such as ``"nodes"``.
    """
    there = [path for suffix in SUFFIXES if (path := folder / f"{stem}{suffix}").is_file()]
    if len(there) > 1:
        raise ValueError(f"{folder} has both {there[0].name} and {there[1].name}: keep one of them")
    return there[0] if there else None


def open_source(path: Path, report: Report) -> TableFile:
    """Reads the header, and looks through all of a text file.

    Args:
        path: Of the file.
        report: Takes what is odd; an unreadable file is raised.
    """
    here = Places(path.name)
    if path.name.endswith(".parquet"):
        try:
            with path.open("rb") as file:  # a path would be one with wildcards
                columns = list(pl.read_parquet_schema(file))
        except pl.exceptions.PolarsError:
            report.fail(here.finding("error", "unreadable", "this is not a Parquet file"))
        return TableFile(path, columns)
    if not path.stat().st_size:
        report.fail(here.finding("error", "empty-file", "the file is empty; its first line must name the columns"))
    if path.name.endswith(".gz"):
        try:
            packed = gzip.decompress(path.read_bytes())
        except (OSError, EOFError, zlib.error) as error:
            report.fail(here.finding("error", "unreadable", f"it cannot be unpacked: {error}"))
        layout = scan(np.frombuffer(packed, dtype=np.uint8), path.name, report)
        return TableFile(path, layout.columns, packed, layout)
    layout = scan(np.asarray(np.memmap(path, dtype=np.uint8, mode="r")), path.name, report)
    return TableFile(path, layout.columns, path, layout)


def unpack(path: Path, folder: Path, report: Report) -> Path:
    """Unpacks a table into a folder, piece by piece, and says where it is.

    Args:
        path: Of the packed file.
        folder: To put it into.
        report: Takes why it cannot be done.
    """
    target = folder / path.name.removesuffix(".gz")
    try:
        with gzip.open(path) as packed, target.open("wb") as file:
            shutil.copyfileobj(packed, file, 1 << 22)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        report.fail(Places(path.name).finding("error", "unreadable", f"it cannot be unpacked: {error}"))
    return target


def _read_parquet(path: Path, report: Report) -> pl.DataFrame:
    try:
        frame = pl.read_parquet(path, glob=False)
    except pl.exceptions.PolarsError as error:
        report.fail(Places(path.name).finding("error", "unreadable", str(error).splitlines()[0]))
    return without_empty(frame.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String)), strip=True)


def without_empty(frame: pl.DataFrame, strip: bool) -> pl.DataFrame:
    """Words that are empty are null."""
    words = pl.col(pl.String).str.strip_chars() if strip else pl.col(pl.String)
    return frame.with_columns(pl.when(words != "").then(words).name.keep())


def all_numbers(values: pl.Series) -> bool:
    """Whether everything that is there is a number; a column with nothing in it is one of numbers, all missing."""
    return values.cast(pl.Float64, strict=False).null_count() == values.null_count()
