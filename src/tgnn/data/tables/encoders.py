"""Encoding of one column as a block of the feature matrix: numbers, one-hot categories and bags of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse

from tgnn.data.tables.ids import positions
from tgnn.data.tables.schema import ColumnType, Schema
from tgnn.data.tables.table_file import TableData
from tgnn.data.validation.report import ValidationReport, quoted

Encoding = dict[str, Any]
"""JSON values. All columns have ``column`` and ``kind``. Numeric columns have ``width`` and may have ``fill``, ``mean``
and ``deviation``. Categorical columns have ``vocabulary``; token columns also have ``separator``."""
_UNSUPPORTED = (pl.Struct, pl.Binary, pl.Object)
FEW = 10
"""Columns of at most this many rows are not checked for unique or consecutive values, which may be coincidence."""
MISSING = ("na", "n/a", "nan", "null", "none", "?")
"""Lower-case strings that mean a missing number."""


def infer_encoding(
    table: TableData, column: str, kind: ColumnType | None, schema: Schema, part: str, report: ValidationReport
) -> Encoding | None:
    """Infer the type of a column and its vocabulary. ``None``: the column is not used.

    Args:
        table: The rows.
        column: Name of the column.
        kind: Type that the schema sets for the column.
        schema: Reading options.
        part: ``"nodes"`` or ``"edges"``, the section of the schema to name in messages.
        report: Collects errors and warnings.
    """
    values = table.frame[column]
    if kind == "ignore":
        return None
    if (kind is None and values.null_count() == len(values)) or (_is_list(values) and not width_of(values)):
        if len(values):
            report.add(table.places.finding("warning", "empty-column", f"column {column!r} is empty and ignored"))
        return None
    if isinstance(values.dtype, _UNSUPPORTED):
        _report_unsupported(table, column, part, report)
        return None
    lists_of_strings = _is_list(values) and values.dtype.inner == pl.String  # type: ignore[attr-defined]
    if kind == "tokens" or (kind is None and lists_of_strings):
        return _token_encoding(values, column, schema)
    if kind == "numeric" or (kind is None and _is_numeric(values)):
        if _counts_rows(values):
            report.add(table.places.finding("warning", "feature-like-ids", row_counter_message(column, part)))
        return {"column": column, "kind": "numeric", "width": width_of(values)}
    if values.dtype not in (pl.String, pl.Boolean) and not values.dtype.is_numeric():
        _report_unsupported(table, column, part, report)
        return None
    strings = values.cast(pl.String)
    if kind is None and strings.drop_nulls().str.contains(r"^\s*[+-]?\d+,\d+\s*$").all():
        text = f"column {column!r} is read as categorical, but has decimal commas; write 1.5 instead of 1,5"
        report.add(table.places.finding("warning", "decimal-comma", text))
    return _category_encoding(table, strings, column, schema, part, report)


def check_column_types(table: TableData, encodings: Sequence[Encoding], report: ValidationReport) -> None:
    """Raise an error if new data cannot be encoded as before, for example a list instead of a string.

    Args:
        table: The rows.
        encodings: Encodings of the columns.
        report: Collects errors.
    """
    for encoding in encodings:
        dtype = table.frame.schema[encoding["column"]]
        if isinstance(dtype, _UNSUPPORTED) or (dtype.is_nested() and encoding["kind"] == "categorical"):
            text = f"column {encoding['column']!r} has the type {dtype} and cannot be encoded as {encoding['kind']}"
            report.fail(table.places.finding("error", "unknown-kind", text))


def numbers(table: TableData, values: pl.Series, encoding: Encoding, part: str, report: ValidationReport) -> np.ndarray:
    """Convert a numeric column to float64 ``[N, width]``. Missing numbers are NaN."""
    column, width = encoding["column"], encoding["width"]
    if _is_list(values) or width > 1:
        return _list_matrix(table, values, column, width, report)
    parsed = _as_numbers(values)
    invalid = (parsed.is_null() & ~is_missing(values)).to_numpy()
    if invalid.any():
        words = quoted(values.filter(pl.Series(invalid)).unique(maintain_order=True))
        solution = _schema_hint(part, column, "categorical")
        text = f"column {column!r} is numeric, but contains {words}; correct the values, or {solution}"
        report.add(table.places.finding("error", "not-a-number", text, invalid))
        parsed = parsed.set(pl.Series(invalid), 0)  # so that the value is not reported as missing as well
    return parsed.to_numpy().reshape(-1, 1)


def one_hot(table: TableData, values: pl.Series, encoding: Encoding, report: ValidationReport) -> Any:
    """Encode a categorical column as a sparse matrix ``[N, vocabulary]``. Missing and unknown values are zero rows."""
    values = values.cast(pl.String)
    index = positions(values, pl.Series(encoding["vocabulary"], dtype=pl.String))
    unknown = (index < 0) & values.is_not_null().to_numpy()
    if unknown.any():
        words = quoted(values.filter(pl.Series(unknown)).unique(maintain_order=True))
        text = (
            f"column {encoding['column']!r} has unknown categories, not in the training data: {words}; encoded as zeros"
        )
        report.add(table.places.finding("warning", "unknown-category", text, unknown))
    if values.null_count():
        text = f"column {encoding['column']!r} is empty; encoded as zeros"
        report.add(table.places.finding("note", "missing-category", text, values.is_null().to_numpy()))
    rows = np.flatnonzero(index >= 0)
    return _ones(rows, index[rows], (len(values), len(encoding["vocabulary"])))


def token_matrix(table: TableData, values: pl.Series, encoding: Encoding, report: ValidationReport) -> Any:
    """Encode a column of tokens as a sparse matrix ``[N, vocabulary]`` with 1 for each token that occurs."""
    pairs = split_words(values, encoding["separator"])
    index = positions(pairs["word"], pl.Series(encoding["vocabulary"], dtype=pl.String))
    unknown = index < 0
    if unknown.any():
        words = quoted(pairs["word"].filter(pl.Series(unknown)).unique(maintain_order=True))
        text = f"column {encoding['column']!r} has unknown tokens, not in the training data: {words}; ignored"
        rows = np.unique(pairs["row"].to_numpy()[unknown])
        report.add(table.places.finding("note", "unknown-token", text, rows))
    shape = (len(values), len(encoding["vocabulary"]))
    return _ones(pairs["row"].to_numpy()[~unknown], index[~unknown], shape)


def separator_of(values: pl.Series, schema: Schema) -> str:
    """Return the separator of the words of a cell: that of the schema, else ``;`` if it occurs, else a space."""
    if schema.separator is not None:
        return schema.separator
    return ";" if values.dtype == pl.String and bool(values.str.contains(";", literal=True).any()) else " "


def split_words(values: pl.Series, separator: str) -> pl.DataFrame:
    """Split cells into words and return pairs of ``row`` and ``word``.

    Example:
        >>> split_words(pl.Series(["a; b", None, "b"]), ";").rows()
        [(0, 'a'), (0, 'b'), (2, 'b')]
    """
    if not _is_list(values):
        values = values.cast(pl.String).str.split(separator)
    frame = pl.DataFrame({"row": np.arange(len(values)), "word": values}).explode("word")
    return frame.with_columns(pl.col("word").cast(pl.String).str.strip_chars()).filter(pl.col("word") != "")


def _report_unsupported(table: TableData, column: str, part: str, report: ValidationReport) -> None:
    dtype = table.frame.schema[column]
    solution = _schema_hint(part, column, "ignore")
    text = f"column {column!r} has the type {dtype}, which cannot be a feature; convert it, or {solution}"
    report.add(table.places.finding("error", "unknown-kind", text))


def _schema_hint(part: str, column: str, kind: str) -> str:
    return f"set its type in schema.yaml ({part}: features: {column}: {kind})"


def _token_encoding(values: pl.Series, column: str, schema: Schema) -> Encoding:
    separator = separator_of(values, schema)
    vocabulary = split_words(values, separator)["word"].unique().sort().to_list()
    return {"column": column, "kind": "tokens", "separator": separator, "vocabulary": vocabulary}


def _category_encoding(
    table: TableData, values: pl.Series, column: str, schema: Schema, part: str, report: ValidationReport
) -> Encoding | None:
    words = values.drop_nulls().unique().sort()
    if len(words) > schema.max_categories:
        text = (
            f"column {column!r} has {len(words):,} categories, more than max_categories ({schema.max_categories:,}); "
        )
        text += f"if it is text, {_schema_hint(part, column, 'tokens')}, else use ignore or raise max_categories"
        report.add(table.places.finding("error", "many-categories", text))
        return None
    if len(words) == len(values) > FEW:
        text = f"column {column!r} has a different string in every row; if it is a name, "
        report.add(table.places.finding("warning", "feature-like-ids", text + _schema_hint(part, column, "ignore")))
    return {"column": column, "kind": "categorical", "vocabulary": words.to_list()}


def _is_numeric(values: pl.Series) -> bool:
    """Whether at least half of the values are numbers. The others are then errors, not categories."""
    if values.dtype == pl.String:
        there = ~is_missing(values)
        return 2 * int((_as_numbers(values).is_not_null() & there).sum()) >= int(there.sum())
    if _is_list(values):
        return bool(values.dtype.inner.is_numeric())  # type: ignore[attr-defined]
    return values.dtype.is_numeric() or values.dtype == pl.Boolean


def _counts_rows(values: pl.Series) -> bool:
    """Whether a column is a saved index: each number is one more than the number before."""
    return not _is_list(values) and len(values) > FEW and is_row_counter(_as_numbers(values))


def is_row_counter(numbers: pl.Series) -> bool:
    """Whether each number is one more than the number before.

    Example:
        >>> is_row_counter(pl.Series([4.0, 5.0, 6.0])), is_row_counter(pl.Series([4.0, None, 6.0]))
        (True, False)
    """
    return bool((numbers.diff(null_behavior="drop") == 1).all(ignore_nulls=False))


def row_counter_message(column: str, part: str) -> str:
    """Return the warning about a column that counts the rows."""
    return f"column {column!r} counts the rows; if it is not a feature, {_schema_hint(part, column, 'ignore')}"


def is_missing(values: pl.Series) -> pl.Series:
    """Return a mask of the cells that are empty or mean a missing number."""
    if values.dtype != pl.String:
        return values.is_null()
    return values.is_null() | values.str.to_lowercase().is_in(MISSING)


def _as_numbers(values: pl.Series) -> pl.Series:
    return values.cast(pl.Float64, strict=False)


def _is_list(values: pl.Series) -> bool:
    return isinstance(values.dtype, pl.List | pl.Array)


def width_of(values: pl.Series) -> int:
    """Return the length of the first non-empty list (0 if there is none), or 1 for a column of scalars."""
    if not _is_list(values):
        return 1
    lengths = values.drop_nulls().cast(pl.List(values.dtype.inner)).list.len()  # type: ignore[attr-defined]
    return int(lengths.filter(lengths > 0).head(1).sum())


def _list_matrix(table: TableData, values: pl.Series, column: str, width: int, report: ValidationReport) -> np.ndarray:
    """Convert a column of lists of equal length, such as embeddings, to ``[N, width]``."""
    block = np.full((len(values), width), np.nan)
    if not _is_list(values):
        text = f"column {column!r} must contain lists of {width} numbers"
        report.add(table.places.finding("error", "wrong-length", text))
        return np.zeros_like(block)
    lists = values.cast(pl.List(pl.Float64), strict=False)
    lengths = lists.list.len()
    wrong = (lengths != width).fill_null(False)
    if bool(wrong.any()):
        text = f"column {column!r} has a list of {lengths.filter(wrong)[0]} numbers, but other rows have {width}"
        report.add(table.places.finding("error", "wrong-length", text, wrong.to_numpy()))
        return np.zeros_like(block)
    there = lists.is_not_null().to_numpy()
    block[there] = lists.drop_nulls().explode().to_numpy().reshape(-1, width)
    return block


def _ones(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> Any:
    matrix = scipy.sparse.csr_matrix((np.ones(len(rows), dtype=np.float32), (rows, columns)), shape=shape)
    matrix.data[:] = 1  # a token that occurs twice in a cell was counted twice
    return matrix
