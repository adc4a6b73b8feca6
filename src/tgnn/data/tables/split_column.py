"""A column that says who is learned from."""

from __future__ import annotations

import polars as pl
from torch import Tensor

from tgnn.data.splits import Split, from_column
from tgnn.data.tables.table_file import Table
from tgnn.data.validation.report import Report, named


def read_split(table: Table, column: str, labelled: Tensor | None, report: Report) -> Split | None:
    """The user's own split; who has no label is in no part.

    Args:
        table: The rows.
        column: With ``train``, ``val``, ``test`` or nothing.
        labelled: Which rows have a label; ``None``: there are no labels.
        report: Takes what is odd.
    """
    values = table.frame[column].cast(pl.String)
    wrong = [value for value in values.drop_nulls().unique(maintain_order=True) if not _is_part(value)]
    if wrong:
        text = f"{column!r} says {named(wrong)}, but must say train, val, test or nothing"
        report.add(table.places.finding("error", "unknown-part", text, values.is_in(wrong).fill_null(False).to_numpy()))
        return None
    if labelled is None:
        text = f"{column!r} is not used: there are no labels to learn from"
        report.add(table.places.finding("warning", "split-without-labels", text))
        return None
    lost = ~labelled.numpy() & values.is_not_null().to_numpy()
    if lost.any():
        text = f"{column!r} puts it in a part, but it has no label: in no part"
        report.add(table.places.finding("warning", "split-without-label", text, lost))
        values = pl.select(pl.when(pl.Series(labelled.numpy())).then(values)).to_series()
    split = from_column(values.to_list())
    if not len(split.train):
        report.add(table.places.finding("error", "no-training", f"{column!r} puts nothing into 'train'"))
    return split


def _is_part(value: str) -> bool:
    try:
        from_column([value])
    except ValueError:
        return False
    return True
