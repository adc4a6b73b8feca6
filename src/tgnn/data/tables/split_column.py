"""Reader of a column that assigns rows to the training, validation and test sets."""

from __future__ import annotations

import polars as pl
from torch import Tensor

from tgnn.data.splits import Split, from_column
from tgnn.data.tables.table_file import TableData
from tgnn.data.validation.report import ValidationReport, quoted


def read_split(table: TableData, column: str, labeled: Tensor | None, report: ValidationReport) -> Split | None:
    """Read the user's own split from a column. Rows without a label are in no set.

    Args:
        table: The rows.
        column: Name of the column with ``train``, ``val``, ``test`` or empty cells.
        labeled: Mask of the rows that have a label; ``None`` if the table has no label column.
        report: Collects errors and warnings.
    """
    values = table.frame[column].cast(pl.String)
    unknown = [value for value in values.drop_nulls().unique(maintain_order=True) if not _is_split_name(value)]
    if unknown:
        text = f"column {column!r} contains {quoted(unknown)}, but only train, val, test and empty cells are allowed"
        rows = values.is_in(unknown).fill_null(False).to_numpy()
        report.add(table.places.finding("error", "unknown-part", text, rows))
        return None
    if labeled is None:
        text = f"column {column!r} is ignored because there are no labels"
        report.add(table.places.finding("warning", "split-without-labels", text))
        return None
    unlabeled = ~labeled.numpy() & values.is_not_null().to_numpy()
    if unlabeled.any():
        text = f"column {column!r} assigns a set, but the row has no label, so it is in no set"
        report.add(table.places.finding("warning", "split-without-label", text, unlabeled))
        values = pl.select(pl.when(pl.Series(labeled.numpy())).then(values)).to_series()
    split = from_column(values.to_list())
    if not len(split.train):
        text = f"column {column!r} assigns no labeled row to the training set ('train')"
        report.add(table.places.finding("error", "no-training", text))
    return split


def _is_split_name(value: str) -> bool:
    try:
        from_column([value])
    except ValueError:
        return False
    return True
