"""Encoding of the columns of a table as a feature matrix: numbers, one-hot categories and bags of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse
import torch
from torch import Tensor

from tgnn.data.tables.ids import as_ids, positions
from tgnn.data.tables.numeric import (
    FEW,
    Encoding,
    NumericColumn,
    as_numbers,
    is_list,
    is_missing,
    list_width,
    schema_hint,
    standardized,
    width_of,
)
from tgnn.data.tables.schema import ColumnType, Schema
from tgnn.data.tables.table_file import Table, examples
from tgnn.data.tensors import torch_csr
from tgnn.data.validation.report import subject
from tgnn.utils.memory import check_memory

SPARSE, WIDE = 0.1, 32
"""A matrix is stored sparse if at most this fraction of its entries is not 0 and it has at least this many columns."""
_CELLS = 1 << 20
"""Number of cells of numeric columns that are encoded at once. A column at a time would be slow for wide tables."""
_UNSUPPORTED = (pl.Struct, pl.Binary, pl.Object)


@dataclass
class Features:
    """Encoded feature columns: the encoding of each column that is used, and their dense or sparse feature matrices."""

    rows: int
    encodings: Sequence[Encoding] = ()
    blocks: list[Any] = field(default_factory=list)

    @property
    def width(self) -> int:
        """Number of columns of the feature matrix."""
        return sum(block.shape[1] for block in self.blocks)

    def sizes(self) -> np.ndarray:
        """Return the largest absolute value of each feature. Categories and tokens are at most 1."""
        sizes = (np.ones(b.shape[1]) if scipy.sparse.issparse(b) else np.abs(b).max(0, initial=0) for b in self.blocks)
        return np.concatenate([np.empty(0), *sizes])

    def describe(self) -> str:
        """List the columns by type, for the report."""
        kinds: dict[str, list[str]] = {}
        for encoding in self.encodings:
            width = "" if width_of(encoding) == 1 else f" ({width_of(encoding):,})"
            kinds.setdefault(encoding["kind"], []).append(f"{encoding['column']}{width}")
        return "; ".join(
            f"{kind}: {', '.join(columns[:8])}" + (f" and {len(columns) - 8:,} more" if len(columns) > 8 else "")
            for kind, columns in kinds.items()
        )

    def names(self) -> list[str]:
        """Return the names of the columns of the feature matrix, such as ``age``, ``place[0]`` and ``town=Oslo``."""
        names: list[str] = []
        for encoding in self.encodings:
            column = encoding["column"]
            if encoding["kind"] != "numeric":
                names += [f"{column}={word}" for word in encoding["vocabulary"]]
            elif encoding["width"] == 1:
                names.append(column)
            else:
                names += [f"{column}[{entry}]" for entry in range(encoding["width"])]
        return names

    def is_sparse(self) -> bool:
        """Whether the feature matrix should be stored as a sparse matrix."""
        entries = sum(int(b.nnz if scipy.sparse.issparse(b) else np.count_nonzero(b)) for b in self.blocks)
        return self.width >= WIDE and entries <= SPARSE * self.rows * self.width

    def matrix(self, sparse: bool = False) -> Tensor | None:
        """Return the feature matrix ``[rows, width]``, or ``None`` if there are no features."""
        if not self.blocks:
            return None
        if sparse:
            return torch_csr(scipy.sparse.hstack([scipy.sparse.csr_matrix(b) for b in self.blocks], format="csr"))
        check_memory(4 * self.rows * self.width, f"The feature matrix ({self.rows:,} rows, {self.width:,} columns)")
        dense = [b.toarray() if scipy.sparse.issparse(b) else b for b in self.blocks]
        return torch.from_numpy(np.concatenate(dense, axis=1, out=np.empty((self.rows, self.width), np.float32)))


# ---- inference of encodings ------------------------------------------------------------------------------------


def infer_encodings(table: Table, schema: Schema) -> list[Encoding]:
    """Infer the type of each feature column, its vocabulary, fill value, mean and standard deviation."""
    found = (_infer_encoding(table, column, kind, schema) for column, kind in table.roles.features.items())
    return [encoding for encoding in found if encoding is not None]


def _infer_encoding(table: Table, column: str, kind: ColumnType | None, schema: Schema) -> Encoding | None:
    values = table.series[column]
    if kind == "ignore":
        return None
    if (kind is None and values.null_count() == len(values)) or (is_list(values) and not list_width(values)):
        if len(values):
            table.warning("empty-column", f"column {column!r} is empty and ignored")
        return None
    lists_of_strings = is_list(values) and values.dtype.inner == pl.String  # type: ignore[attr-defined]
    if not isinstance(values.dtype, _UNSUPPORTED):
        if kind == "tokens" or (kind is None and lists_of_strings):
            separator = separator_of(values, schema)
            vocabulary = split_words(values, separator)["word"].unique().sort().to_list()
            return {"column": column, "kind": "tokens", "separator": separator, "vocabulary": vocabulary}
        statistics = NumericColumn(column, kind)
        statistics.update(values)
        if statistics.is_numeric:
            return statistics.encoding(table, schema)
        if values.dtype in (pl.String, pl.Boolean) or values.dtype.is_numeric():
            return _infer_categories(table, column, kind, schema)
    solution = schema_hint(table, column, "ignore")
    text = f"column {column!r} has the type {values.dtype}, which cannot be a feature; convert it, or {solution}"
    table.error("unknown-kind", text)
    return None


def _infer_categories(table: Table, column: str, kind: ColumnType | None, schema: Schema) -> Encoding | None:
    values = _as_words(table.series[column])
    if kind is None and values.drop_nulls().str.contains(r"^\s*[+-]?\d+,\d+\s*$").all():
        text = f"column {column!r} is read as categorical, but has decimal commas; write 1.5 instead of 1,5"
        table.warning("decimal-comma", text)
    words = values.drop_nulls().unique().sort()
    if kind is None and len(words) == len(values) > FEW:
        text = f"column {column!r} has a different string in every row and is ignored; to use it, "
        table.warning("feature-like-ids", text + schema_hint(table, column, "categorical"))
        return None
    if len(words) > schema.max_categories:
        text = (
            f"column {column!r} has {len(words):,} categories, more than max_categories ({schema.max_categories:,}); "
            f"if it is text, {schema_hint(table, column, 'tokens')}, else use ignore or raise max_categories"
        )
        table.error("many-categories", text)
        return None
    return {"column": column, "kind": "categorical", "vocabulary": words.to_list()}


def _as_words(values: pl.Series) -> pl.Series:
    """Convert categories to strings. A category 2 is the same if another file has 2.0."""
    return (as_ids(values) if values.dtype.is_numeric() else values).cast(pl.String)


def separator_of(values: pl.Series, schema: Schema) -> str:
    """Return the separator of the words of a cell: that of the schema, else ``;`` if it occurs, else a space."""
    if schema.separator is not None:
        return schema.separator
    return ";" if values.dtype == pl.String and bool(values.str.contains(";", literal=True).any()) else " "


# ---- application of encodings ----------------------------------------------------------------------------------


def apply(table: Table, encodings: Sequence[Encoding], is_new: bool = False) -> Features:
    """Encode columns with known encodings. Missing columns, missing numbers and unknown words are reported.

    In the columns of new data (``is_new``), strings among numbers are missing numbers, not errors.
    """
    absent = [encoding["column"] for encoding in encodings if encoding["column"] not in table.series]
    if absent:
        text = subject("column", absent, "of the training data is", "of the training data are", limit=20)
        table.fail("missing-column", f"{text} missing")
    for encoding in encodings:
        _check_type(table, encoding)
    features = Features(table.frame.height, encodings)
    missing: dict[str, np.ndarray] = {}
    for group in _groups(encodings, table.frame.height):
        if group[0]["kind"] == "numeric":
            features.blocks.append(_encode_numbers(table, group, missing, is_new))
        else:
            encode = _one_hot if group[0]["kind"] == "categorical" else _bag_of_words
            features.blocks.append(encode(table, group[0]))
    if missing:
        solution = f"{'train again with' if is_new else 'set'} a fill value in schema.yaml"
        text = f"{subject('column', missing, 'has', 'have')} a missing number; add it, or {solution} (fill: mean)"
        table.error("missing-feature", text, np.any(list(missing.values()), axis=0))
    return features


def _check_type(table: Table, encoding: Encoding) -> None:
    """Raise an error if new data cannot be encoded as before, for example a list instead of a string."""
    dtype = table.series[encoding["column"]].dtype
    if isinstance(dtype, _UNSUPPORTED) or (dtype.is_nested() and encoding["kind"] == "categorical"):
        text = f"column {encoding['column']!r} has the type {dtype} and cannot be encoded as {encoding['kind']}"
        table.fail("unknown-kind", text)


def _groups(encodings: Sequence[Encoding], rows: int) -> Iterator[list[Encoding]]:
    """Yield adjacent columns of numbers together, and every other column alone."""
    at_once = max(1, _CELLS // max(1, rows))
    for scalar, columns in groupby(encodings, key=lambda encoding: encoding.get("width") == 1):
        group = list(columns)
        size = at_once if scalar else 1
        yield from (group[begin : begin + size] for begin in range(0, len(group), size))


def _encode_numbers(
    table: Table, encodings: list[Encoding], missing: dict[str, np.ndarray], is_new: bool
) -> np.ndarray:
    """Encode scalar columns, or one column of lists. Add a mask of the missing numbers that have no fill value."""
    columns = [_number_matrix(table, encoding, is_new) for encoding in encodings]
    block = columns[0] if len(columns) == 1 else np.concatenate(columns).reshape(len(columns), -1).T
    gaps = np.isnan(block)
    if gaps.any():
        fills = [np.broadcast_to(encoding.get("fill", 0.0), encoding["width"]) for encoding in encodings]
        block = np.where(gaps, np.concatenate(fills), block)
        for position, encoding in enumerate(encodings):
            rows = gaps[:, position] if len(encodings) > 1 else gaps.any(1)
            if rows.any() and "fill" not in encoding:
                missing[encoding["column"]] = rows
            elif rows.any():
                value = encoding["fill"]
                value = "the mean of each entry" if isinstance(value, list) else f"{value:.10g}"
                text = f"column {encoding['column']!r} has a missing number, filled with {value}"
                table.warning("filled-number", text, rows)
    return standardized(block, encodings)


def _number_matrix(table: Table, encoding: Encoding, is_new: bool) -> np.ndarray:
    """Convert a numeric column to float64 ``[N, width]``. Missing numbers are NaN."""
    column, width = encoding["column"], encoding["width"]
    values = table.series[column]
    if is_list(values) or width > 1:
        return _list_matrix(table, values, column, width)
    if values.dtype == pl.Float64:
        return values.to_numpy().reshape(-1, 1)
    parsed = as_numbers(values)
    invalid = parsed.is_null() & ~is_missing(values)
    words = examples(values, invalid)
    if is_new:
        text = f"column {column!r} was numeric in the training data, but contains {words}; read as missing numbers"
        table.warning("not-a-number", text, invalid)
        return parsed.to_numpy().reshape(-1, 1)
    solution = schema_hint(table, column, "categorical")
    text = f"column {column!r} is numeric, but contains {words}; correct the values, or {solution}"
    if table.error("not-a-number", text, invalid):
        parsed = parsed.set(invalid, 0)  # so that the value is not reported as missing as well
    return parsed.to_numpy().reshape(-1, 1)


def _list_matrix(table: Table, values: pl.Series, column: str, width: int) -> np.ndarray:
    """Convert a column of lists of equal length, such as embeddings, to ``[N, width]``."""
    if not is_list(values):
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


def _one_hot(table: Table, encoding: Encoding) -> Any:
    """Encode a categorical column as a sparse matrix ``[N, vocabulary]``. Missing and unknown values are zero rows."""
    column = encoding["column"]
    values = _as_words(table.series[column])
    index = positions(values, pl.Series(encoding["vocabulary"], dtype=pl.String))
    unknown = (index < 0) & values.is_not_null().to_numpy()
    words = examples(values, unknown)
    text = f"column {column!r} has unknown categories, not in the training data: {words}; encoded as zeros"
    table.warning("unknown-category", text, unknown)
    table.note("missing-category", f"column {column!r} is empty; encoded as zeros", values.is_null())
    rows = np.flatnonzero(index >= 0)
    return _ones(rows, index[rows], (len(values), len(encoding["vocabulary"])))


def _bag_of_words(table: Table, encoding: Encoding) -> Any:
    """Encode a column of tokens as a sparse matrix ``[N, vocabulary]`` with 1 for each token that occurs."""
    column = encoding["column"]
    rows, index, unknown, words = find_words(table.series[column], encoding["separator"], encoding["vocabulary"])
    text = f"column {column!r} has unknown tokens, not in the training data: {words}; ignored"
    table.note("unknown-token", text, unknown)
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
    """Split cells into words and return pairs of ``row`` and ``word``."""
    if not is_list(values):
        values = values.cast(pl.String).str.split(separator)
    frame = pl.DataFrame({"row": np.arange(len(values)), "word": values}).explode("word")
    return frame.with_columns(pl.col("word").cast(pl.String).str.strip_chars()).filter(pl.col("word") != "")


def _ones(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> Any:
    matrix = scipy.sparse.csr_matrix((np.ones(len(rows), dtype=np.float32), (rows, columns)), shape=shape)
    matrix.data[:] = 1  # a token that occurs twice in a cell was counted twice
    return matrix
