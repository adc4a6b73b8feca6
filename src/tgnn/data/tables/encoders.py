"""One column to one block of features: numbers, and words as one column each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse

from tgnn.data.tables.ids import positions
from tgnn.data.tables.schema import Kind, Schema
from tgnn.data.tables.table_file import Table
from tgnn.data.validation.report import Report, named

Encoding = dict[str, Any]
"""Plain values: ``column``, ``kind``; of numbers ``width``, ``fill``, ``mean``, ``deviation``; else ``vocabulary``,
``separator``."""
_ODD = (pl.Struct, pl.Binary, pl.Object)
FEW = 10
"""So many rows may be counted by chance."""
MISSING = ("na", "n/a", "nan", "null", "none", "?")
"""Words that stand for a number that is not there."""


def guess_kind(
    table: Table, column: str, kind: Kind | None, schema: Schema, part: str, report: Report
) -> Encoding | None:
    """What a column is, with its vocabulary; ``None``: nothing to be used.

    Args:
        table: Where it is.
        column: Its name.
        kind: What the schema says it is.
        schema: For the rest of what it says.
        part: ``"nodes"`` or ``"edges"``, for the way out of an error.
        report: Takes what is odd.
    """
    values = table.frame[column]
    if kind == "ignore":
        return None
    if (kind is None and values.null_count() == len(values)) or (_is_list(values) and not width_of(values)):
        if len(values):
            report.add(table.places.finding("warning", "empty-column", f"{column!r} is empty: left out"))
        return None
    if isinstance(values.dtype, _ODD):
        _refuse(table, column, part, report)
        return None
    words = _is_list(values) and values.dtype.inner == pl.String  # type: ignore[attr-defined]
    if kind == "tokens" or (kind is None and words):
        return _tokens(values, column, schema)
    if kind == "numeric" or (kind is None and _is_numeric(values)):
        if _counts_rows(values):
            report.add(table.places.finding("warning", "feature-like-ids", text_of_count(column, part)))
        return {"column": column, "kind": "numeric", "width": width_of(values)}
    if values.dtype not in (pl.String, pl.Boolean) and not values.dtype.is_numeric():
        _refuse(table, column, part, report)
        return None
    words_of = values.cast(pl.String)
    if kind is None and words_of.drop_nulls().str.contains(r"^\s*[+-]?\d+,\d+\s*$").all():
        text = f"{column!r} looks like numbers with a decimal comma, and is read as words: write 1.5, not 1,5"
        report.add(table.places.finding("warning", "decimal-comma", text))
    return _categories(table, words_of, column, schema, part, report)


def check_kinds(table: Table, encodings: Sequence[Encoding], report: Report) -> None:
    """Raises where new data holds what cannot be encoded as before: a list where there was a word.

    Args:
        table: The rows.
        encodings: Of its columns.
        report: Takes what is odd.
    """
    for encoding in encodings:
        kind = table.frame.schema[encoding["column"]]
        if isinstance(kind, _ODD) or (kind.is_nested() and encoding["kind"] == "categorical"):
            text = f"{encoding['column']!r} holds {kind}, and cannot be encoded as {encoding['kind']}"
            report.fail(table.places.finding("error", "unknown-kind", text))


def numbers(table: Table, values: pl.Series, encoding: Encoding, part: str, report: Report) -> np.ndarray:
    """Float64 ``[N, width]``, NaN where nothing is."""
    column, width = encoding["column"], encoding["width"]
    if _is_list(values) or width > 1:
        return _lists(table, values, column, width, report)
    found = _as_numbers(values)
    wrong = (found.is_null() & ~is_missing(values)).to_numpy()
    if wrong.any():
        words = named(values.filter(pl.Series(wrong)).unique(maintain_order=True))
        text = f"{column!r} holds numbers, but also {words}: correct them, or {_say(part, column, 'categorical')}"
        report.add(table.places.finding("error", "not-a-number", text, wrong))
        found = found.set(pl.Series(wrong), 0)  # it is said already, and not missing as well
    return found.to_numpy().reshape(-1, 1)


def one_hot(table: Table, values: pl.Series, encoding: Encoding, report: Report) -> Any:
    """Sparse ``[N, vocabulary]``, with nothing in the rows of words that are missing or unknown."""
    values = values.cast(pl.String)
    place = positions(values, pl.Series(encoding["vocabulary"], dtype=pl.String))
    unknown = (place < 0) & values.is_not_null().to_numpy()
    if unknown.any():
        words = named(values.filter(pl.Series(unknown)).unique(maintain_order=True))
        text = f"{encoding['column']!r} has words that were not there before, {words}: all zeros"
        report.add(table.places.finding("warning", "unknown-category", text, unknown))
    if values.null_count():
        text = f"{encoding['column']!r} is empty: all zeros"
        report.add(table.places.finding("note", "missing-category", text, values.is_null().to_numpy()))
    rows = np.flatnonzero(place >= 0)
    return _ones(rows, place[rows], (len(values), len(encoding["vocabulary"])))


def token_matrix(table: Table, values: pl.Series, encoding: Encoding, report: Report) -> Any:
    """Sparse ``[N, vocabulary]``: 1 for each token that occurs."""
    pairs = split_words(values, encoding["separator"])
    place = positions(pairs["word"], pl.Series(encoding["vocabulary"], dtype=pl.String))
    unknown = place < 0
    if unknown.any():
        words = named(pairs["word"].filter(pl.Series(unknown)).unique(maintain_order=True))
        text = f"{encoding['column']!r} has tokens that were not there before, {words}: left out"
        rows = np.unique(pairs["row"].to_numpy()[unknown])
        report.add(table.places.finding("note", "unknown-token", text, rows))
    shape = (len(values), len(encoding["vocabulary"]))
    return _ones(pairs["row"].to_numpy()[~unknown], place[~unknown], shape)


def separator_of(values: pl.Series, schema: Schema) -> str:
    """What stands between the words of a cell."""
    if schema.separator is not None:
        return schema.separator
    return ";" if values.dtype == pl.String and bool(values.str.contains(";", literal=True).any()) else " "


def split_words(values: pl.Series, separator: str) -> pl.DataFrame:
    """Pairs of ``row`` and ``word``.

    Example:
        >>> split_words(pl.Series(["a; b", None, "b"]), ";").rows()
        [(0, 'a'), (0, 'b'), (2, 'b')]
    """
    if not _is_list(values):
        values = values.cast(pl.String).str.split(separator)
    frame = pl.DataFrame({"row": np.arange(len(values)), "word": values}).explode("word")
    return frame.with_columns(pl.col("word").cast(pl.String).str.strip_chars()).filter(pl.col("word") != "")


def _refuse(table: Table, column: str, part: str, report: Report) -> None:
    kind = table.frame.schema[column]
    text = f"{column!r} holds {kind}, which is no feature: convert it, or {_say(part, column, 'ignore')}"
    report.add(table.places.finding("error", "unknown-kind", text))


def _say(part: str, column: str, kind: str) -> str:
    return f"say in schema.yaml what it is ({part}: features: {column}: {kind})"


def _tokens(values: pl.Series, column: str, schema: Schema) -> Encoding:
    separator = separator_of(values, schema)
    vocabulary = split_words(values, separator)["word"].unique().sort().to_list()
    return {"column": column, "kind": "tokens", "separator": separator, "vocabulary": vocabulary}


def _categories(
    table: Table, values: pl.Series, column: str, schema: Schema, part: str, report: Report
) -> Encoding | None:
    words = values.drop_nulls().unique().sort()
    if len(words) > schema.max_categories:
        text = f"{column!r} has {len(words):,} different words, more than max_categories ({schema.max_categories:,}): "
        text += f"if it is text, {_say(part, column, 'tokens')}; else ignore, or a larger max_categories"
        report.add(table.places.finding("error", "many-categories", text))
        return None
    if len(words) == len(values) > FEW:
        text = f"{column!r} has another word in every row; if it is a name, {_say(part, column, 'ignore')}"
        report.add(table.places.finding("warning", "feature-like-ids", text))
    return {"column": column, "kind": "categorical", "vocabulary": words.to_list()}


def _is_numeric(values: pl.Series) -> bool:
    """Whether at least half of what is there are numbers; the rest is then an error and not a category."""
    if values.dtype == pl.String:
        there = ~is_missing(values)
        return 2 * int((_as_numbers(values).is_not_null() & there).sum()) >= int(there.sum())
    if _is_list(values):
        return bool(values.dtype.inner.is_numeric())  # type: ignore[attr-defined]
    return values.dtype.is_numeric() or values.dtype == pl.Boolean


def _counts_rows(values: pl.Series) -> bool:
    """Whether each number is one more than the one before, as in an index that was saved along."""
    return not _is_list(values) and len(values) > FEW and counts_on(_as_numbers(values))


def counts_on(numbers: pl.Series) -> bool:
    """Whether each is one more than the one before.

    Example:
        >>> counts_on(pl.Series([4.0, 5.0, 6.0])), counts_on(pl.Series([4.0, None, 6.0]))
        (True, False)
    """
    return bool((numbers.diff(null_behavior="drop") == 1).all(ignore_nulls=False))


def text_of_count(column: str, part: str) -> str:
    """What to say of a column that counts the rows."""
    return f"{column!r} counts the rows; if it is not meant as a feature, {_say(part, column, 'ignore')}"


def is_missing(values: pl.Series) -> pl.Series:
    if values.dtype != pl.String:
        return values.is_null()
    return values.is_null() | values.str.to_lowercase().is_in(MISSING)


def _as_numbers(values: pl.Series) -> pl.Series:
    return values.cast(pl.Float64, strict=False)


def _is_list(values: pl.Series) -> bool:
    return isinstance(values.dtype, pl.List | pl.Array)


def width_of(values: pl.Series) -> int:
    """Of the first list with something in it, 0 where there is none; of what is no list, 1."""
    if not _is_list(values):
        return 1
    lengths = values.drop_nulls().cast(pl.List(values.dtype.inner)).list.len()  # type: ignore[attr-defined]
    return int(lengths.filter(lengths > 0).head(1).sum())


def _lists(table: Table, values: pl.Series, column: str, width: int, report: Report) -> np.ndarray:
    """Embeddings: a list of numbers in every row, all of one length."""
    block = np.full((len(values), width), np.nan)
    if not _is_list(values):
        report.add(table.places.finding("error", "wrong-length", f"{column!r} must hold lists of {width} numbers"))
        return np.zeros_like(block)
    lists = values.cast(pl.List(pl.Float64), strict=False)
    lengths = lists.list.len()
    wrong = (lengths != width).fill_null(False)
    if bool(wrong.any()):
        text = f"{column!r} has lists of {width} numbers, but here of {lengths.filter(wrong)[0]}"
        report.add(table.places.finding("error", "wrong-length", text, wrong.to_numpy()))
        return np.zeros_like(block)
    there = lists.is_not_null().to_numpy()
    block[there] = lists.drop_nulls().explode().to_numpy().reshape(-1, width)
    return block


def _ones(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> Any:
    matrix = scipy.sparse.csr_matrix((np.ones(len(rows), dtype=np.float32), (rows, columns)), shape=shape)
    matrix.data[:] = 1  # a token that is there twice was added up
    return matrix
