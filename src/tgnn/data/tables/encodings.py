"""Encoding of one column as a block of the feature matrix: numbers, one-hot categories and bags of tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import scipy.sparse

from tgnn.data.tables.ids import positions
from tgnn.data.tables.schema import ColumnType, Schema
from tgnn.data.tables.table_file import Table, examples
from tgnn.data.validation.report import Reporter

Encoding = dict[str, Any]
"""JSON values. All columns have ``column`` and ``kind``. Numeric columns have ``width`` and may have ``fill``, ``mean``
and ``deviation``. Categorical columns have ``vocabulary``; token columns also have ``separator``."""
_UNSUPPORTED = (pl.Struct, pl.Binary, pl.Object)
FEW = 10
"""Columns of at most this many rows are not checked for unique or consecutive values, which may be coincidence."""
MISSING = ("na", "n/a", "nan", "null", "none", "?")
"""Lower-case strings that mean a missing number."""


def width_of(encoding: Encoding) -> int:
    """Return the number of columns of the feature matrix that a table column becomes."""
    return int(encoding["width"]) if encoding["kind"] == "numeric" else len(encoding["vocabulary"])


def names_of(encoding: Encoding) -> list[str]:
    """Return the names of these columns.

    Example:
        >>> names_of({"column": "town", "kind": "categorical", "vocabulary": ["Oslo", "Rome"]})
        ['town=Oslo', 'town=Rome']
    """
    column = encoding["column"]
    if encoding["kind"] in ("categorical", "tokens"):
        return [f"{column}={word}" for word in encoding["vocabulary"]]
    return [column] if encoding["width"] == 1 else [f"{column}[{i}]" for i in range(encoding["width"])]


def infer_encoding(table: Table, column: str, kind: ColumnType | None, schema: Schema) -> Encoding | None:
    """Infer the type of a column, if the schema does not set it, and its vocabulary. ``None``: it is not used."""
    values = table.series[column]
    if kind == "ignore":
        return None
    if (kind is None and values.null_count() == len(values)) or (_is_list(values) and not list_width(values)):
        if len(values):
            table.warning("empty-column", f"column {column!r} is empty and ignored")
        return None
    lists_of_strings = _is_list(values) and values.dtype.inner == pl.String  # type: ignore[attr-defined]
    if isinstance(values.dtype, _UNSUPPORTED):
        pass
    elif kind == "tokens" or (kind is None and lists_of_strings):
        separator = separator_of(values, schema)
        vocabulary = split_words(values, separator)["word"].unique().sort().to_list()
        return {"column": column, "kind": "tokens", "separator": separator, "vocabulary": vocabulary}
    elif kind == "numeric" or (kind is None and _is_numeric(values)):
        if len(values) > FEW and not _is_list(values) and is_row_counter(as_numbers(values)):
            table.warning("feature-like-ids", row_counter_message(table, column))
        return {"column": column, "kind": "numeric", "width": list_width(values)}
    elif values.dtype in (pl.String, pl.Boolean) or values.dtype.is_numeric():
        return _infer_categories(table, column, kind, schema)
    solution = _schema_hint(table, column, "ignore")
    text = f"column {column!r} has the type {values.dtype}, which cannot be a feature; convert it, or {solution}"
    table.error("unknown-kind", text)
    return None


def _infer_categories(table: Table, column: str, kind: ColumnType | None, schema: Schema) -> Encoding | None:
    values = table.series[column].cast(pl.String)
    if kind is None and values.drop_nulls().str.contains(r"^\s*[+-]?\d+,\d+\s*$").all():
        text = f"column {column!r} is read as categorical, but has decimal commas; write 1.5 instead of 1,5"
        table.warning("decimal-comma", text)
    words = values.drop_nulls().unique().sort()
    if len(words) > schema.max_categories:
        text = (
            f"column {column!r} has {len(words):,} categories, more than max_categories ({schema.max_categories:,}); "
            f"if it is text, {_schema_hint(table, column, 'tokens')}, else use ignore or raise max_categories"
        )
        table.error("many-categories", text)
        return None
    if len(words) == len(values) > FEW:
        text = f"column {column!r} has a different string in every row; if it is a name, "
        table.warning("feature-like-ids", text + _schema_hint(table, column, "ignore"))
    return {"column": column, "kind": "categorical", "vocabulary": words.to_list()}


def _schema_hint(table: Reporter, column: str, kind: str) -> str:
    part = table.name.partition(".")[0]  # the section of the schema has the name of the file
    return f"set its type in schema.yaml ({part}: features: {column}: {kind})"


def is_row_counter(numbers: pl.Series) -> bool:
    """Whether each number is one more than the number before, as in a saved index.

    Example:
        >>> is_row_counter(pl.Series([4.0, 5.0, 6.0])), is_row_counter(pl.Series([4.0, None, 6.0]))
        (True, False)
    """
    return bool((numbers.diff(null_behavior="drop") == 1).all(ignore_nulls=False))


def row_counter_message(table: Reporter, column: str) -> str:
    """Return the warning about a column that counts the rows."""
    return f"column {column!r} counts the rows; if it is not a feature, {_schema_hint(table, column, 'ignore')}"


def list_width(values: pl.Series) -> int:
    """Return the length of the first non-empty list (0 if there is none), or 1 for a column of scalars."""
    if not _is_list(values):
        return 1
    lengths = values.drop_nulls().cast(pl.List(values.dtype.inner)).list.len()  # type: ignore[attr-defined]
    return int(lengths.filter(lengths > 0).head(1).sum())


def separator_of(values: pl.Series, schema: Schema) -> str:
    """Return the separator of the words of a cell: that of the schema, else ``;`` if it occurs, else a space."""
    if schema.separator is not None:
        return schema.separator
    return ";" if values.dtype == pl.String and bool(values.str.contains(";", literal=True).any()) else " "


def is_missing(values: pl.Series) -> pl.Series:
    """Return a mask of the cells that are empty or mean a missing number."""
    if values.dtype != pl.String:
        return values.is_null()
    return values.is_null() | values.str.to_lowercase().is_in(MISSING)


def _is_numeric(values: pl.Series) -> bool:
    """Whether at least half of the values are numbers. The others are then errors, not categories."""
    if values.dtype == pl.String:
        there = ~is_missing(values)
        return 2 * int((as_numbers(values).is_not_null() & there).sum()) >= int(there.sum())
    if _is_list(values):
        return bool(values.dtype.inner.is_numeric())  # type: ignore[attr-defined]
    return values.dtype.is_numeric() or values.dtype == pl.Boolean


def as_numbers(values: pl.Series) -> pl.Series:
    """Convert to float64. Other strings than numbers become null."""
    return values.cast(pl.Float64, strict=False)


def _is_list(values: pl.Series) -> bool:
    return isinstance(values.dtype, pl.List | pl.Array)


def check_column_type(table: Table, encoding: Encoding) -> None:
    """Raise an error if new data cannot be encoded as before, for example a list instead of a string."""
    dtype = table.series[encoding["column"]].dtype
    if isinstance(dtype, _UNSUPPORTED) or (dtype.is_nested() and encoding["kind"] == "categorical"):
        text = f"column {encoding['column']!r} has the type {dtype} and cannot be encoded as {encoding['kind']}"
        table.fail("unknown-kind", text)


def number_matrix(table: Table, encoding: Encoding) -> np.ndarray:
    """Convert a numeric column to float64 ``[N, width]``. Missing numbers are NaN."""
    column, width = encoding["column"], encoding["width"]
    values = table.series[column]
    if _is_list(values) or width > 1:
        return _list_matrix(table, values, column, width)
    if values.dtype == pl.Float64:
        return values.to_numpy().reshape(-1, 1)
    parsed = as_numbers(values)
    invalid = parsed.is_null() & ~is_missing(values)
    solution = _schema_hint(table, column, "categorical")
    words = examples(values, invalid)
    text = f"column {column!r} is numeric, but contains {words}; correct the values, or {solution}"
    if table.error("not-a-number", text, invalid):
        parsed = parsed.set(invalid, 0)  # so that the value is not reported as missing as well
    return parsed.to_numpy().reshape(-1, 1)


def _list_matrix(table: Table, values: pl.Series, column: str, width: int) -> np.ndarray:
    """Convert a column of lists of equal length, such as embeddings, to ``[N, width]``."""
    if not _is_list(values):
        table.error("wrong-length", f"column {column!r} must contain lists of {width} numbers")
        return np.zeros((len(values), width))
    lists = values.cast(pl.List(pl.Float64), strict=False)
    lengths = lists.list.len()
    wrong = (lengths != width).fill_null(False)
    if wrong.any():
        text = f"column {column!r} has a list of {lengths.filter(wrong)[0]} numbers, but other rows have {width}"
        table.error("wrong-length", text, wrong)
        return np.zeros((len(values), width))
    matrix = np.full((len(values), width), np.nan)
    matrix[lists.is_not_null().to_numpy()] = lists.drop_nulls().explode().to_numpy().reshape(-1, width)
    return matrix


def one_hot(table: Table, encoding: Encoding) -> Any:
    """Encode a categorical column as a sparse matrix ``[N, vocabulary]``. Missing and unknown values are zero rows."""
    column = encoding["column"]
    values = table.series[column].cast(pl.String)
    index = positions(values, pl.Series(encoding["vocabulary"], dtype=pl.String))
    unknown = (index < 0) & values.is_not_null().to_numpy()
    words = examples(values, unknown)
    text = f"column {column!r} has unknown categories, not in the training data: {words}; encoded as zeros"
    table.warning("unknown-category", text, unknown)
    table.note("missing-category", f"column {column!r} is empty; encoded as zeros", values.is_null())
    rows = np.flatnonzero(index >= 0)
    return _ones(rows, index[rows], (len(values), len(encoding["vocabulary"])))


def token_matrix(table: Table, encoding: Encoding) -> Any:
    """Encode a column of tokens as a sparse matrix ``[N, vocabulary]`` with 1 for each token that occurs."""
    column = encoding["column"]
    rows, index, unknown, words = find_words(table.series[column], encoding["separator"], encoding["vocabulary"])
    table.note(
        "unknown-token", f"column {column!r} has unknown tokens, not in the training data: {words}; ignored", unknown
    )
    return _ones(rows, index, (table.frame.height, len(encoding["vocabulary"])))


def find_words(
    values: pl.Series, separator: str, vocabulary: list[str]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, str]:
    """Return row and vocabulary index of each word, the rows with unknown words, and some of these words."""
    pairs = split_words(values, separator)
    index, rows = positions(pairs["word"], pl.Series(vocabulary, dtype=pl.String)), pairs["row"].to_numpy()
    known = index >= 0
    return rows[known], index[known], np.unique(rows[~known]), examples(pairs["word"], ~known)


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


def _ones(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> Any:
    matrix = scipy.sparse.csr_matrix((np.ones(len(rows), dtype=np.float32), (rows, columns)), shape=shape)
    matrix.data[:] = 1  # a token that occurs twice in a cell was counted twice
    return matrix
