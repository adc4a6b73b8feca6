"""What is to be predicted: classes, several labels, or numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor

from tgnn.data.split_protocols import labelled
from tgnn.data.tables.encoders import MISSING, separator_of, split_words
from tgnn.data.tables.ids import as_ids, positions
from tgnn.data.tables.schema import Schema
from tgnn.data.tables.table_file import Table
from tgnn.data.validation.report import Report, named

_FEW_CLASSES = 10  # more whole numbers than that may be meant as numbers

Target = dict[str, Any]
"""Plain values: ``task``, ``columns``, and ``classes``, the names of the classes or labels."""


def read_labels(
    table: Table, columns: list[str], schema: Schema, report: Report, known: Target | None = None
) -> tuple[Tensor, Target]:
    """The target of each row, and what it means.

    Args:
        table: The rows.
        columns: To predict.
        schema: For the task, if it says so.
        report: Takes what is odd.
        known: The same of the data that was learned from.

    Shapes:
        - classes: int64 ``[N]``, -1 where there is none; several labels: 0 and 1, ``[N, labels]``; numbers: ``[N]``, or
          ``[N, columns]`` if there are several. NaN where there is none.
    """
    said = known["task"] if known is not None else schema.task
    _check_kinds(table, columns, said, report)
    values = [_without_missing(table.frame[column]) for column in columns]
    task = said or _guess_task(table, columns, values, report)
    if len(columns) > 1 or task == "regression":
        return _numbers(table, columns, values, task, report)
    if task == "multi-label":
        return _several(table, columns[0], values[0], schema, report, known)
    return _classes(table, columns[0], values[0], report, known)


def target_statistics(target: Mapping[str, Any] | None, y: Tensor | None) -> dict[str, Any]:
    """What a report says of the labels."""
    if target is None or y is None:
        return {}
    counted = "classes" if "classes" in target else "targets"
    count = len(target.get("classes", target["columns"]))
    return {"task": target["task"], counted: count, "labelled": int(labelled(y).sum())}


def _check_kinds(table: Table, columns: list[str], task: str | None, report: Report) -> None:
    """Only lists of labels are lists: in a Parquet file others may be."""
    for column in columns:
        kind = table.frame.schema[column]
        several = isinstance(kind, pl.List | pl.Array) and not kind.inner.is_nested()
        fits = several and len(columns) == 1 and task in (None, "multi-label")
        if (kind.is_nested() or kind.is_temporal() or kind in (pl.Binary, pl.Object)) and not fits:
            text = f"{column!r} holds {kind}, which is no label: write words or numbers"
            report.fail(table.places.finding("error", "unknown-kind", text))


def _guess_task(table: Table, columns: list[str], values: list[pl.Series], report: Report) -> str:
    """Whole numbers and words are classes, other numbers are numbers; several columns of 0 and 1 are labels."""
    if len(values) > 1:
        binary = all(bool(_is_binary(one).all()) for one in values)
        return "multi-label" if binary else "regression"
    if isinstance(values[0].dtype, pl.List | pl.Array):
        return "multi-label"
    if values[0].dtype == pl.String and bool(values[0].str.contains(";", literal=True).any()):
        text = f"{columns[0]!r} has a ';' in it: if that is a list of labels, say task: multi-label in schema.yaml"
        report.add(table.places.finding("warning", "labels-like-lists", text))
    form = _form(values[0])
    if form == "floats":
        text = f"{columns[0]!r} has whole numbers written like 1.0: taken for classes (else say task: regression)"
        report.add(table.places.finding("warning", "classes-as-floats", text))
    elif form == "whole" and (count := values[0].n_unique()) > _FEW_CLASSES:
        text = f"{columns[0]!r} has {count:,} different whole numbers: taken for classes (else say task: regression)"
        report.add(table.places.finding("warning", "classes-as-numbers", text))
    return "regression" if form == "fractions" else "classes"


def _form(values: pl.Series) -> str:
    """How labels are written: as whole numbers, as floats that are whole, as fractions, as words."""
    numbers = _as_numbers(values)
    if values.dtype == pl.Boolean or numbers.null_count() > values.null_count():
        return "words"
    if as_ids(values).dtype == pl.Int64 and not values.dtype.is_float():
        return "whole"
    if not bool(((numbers == numbers.floor()) & (numbers.abs() < 2**53)).all()):
        return "fractions"
    plain = values.dtype == pl.String and not bool(values.str.contains(r"[.eE]").any())
    return "words" if plain else "floats"  # 01 is a name


def _classes(
    table: Table, column: str, values: pl.Series, report: Report, known: Target | None
) -> tuple[Tensor, Target]:
    form = _form(values)
    if form == "floats":
        values = _as_numbers(values)
    values = values.cast(pl.Int64 if form in ("whole", "floats") else pl.String)
    names = values.drop_nulls().unique().sort() if known is None else pl.Series(known["classes"])
    classes = names.to_list()
    if known is None and (empty := [name for name in classes if str(name).lower() in MISSING]):
        count = int(values.cast(pl.String).is_in(empty).sum())
        text = f"{column!r} has the class {named(empty)}, of {count:,}: if that means no label, leave the cells empty"
        report.add(table.places.finding("warning", "class-like-missing", text))
    if values.dtype != names.dtype:
        values, names = values.cast(pl.String), names.cast(pl.String)
    y = positions(values, names)
    unknown = (y < 0) & values.is_not_null().to_numpy()
    if unknown.any():
        words = named(values.filter(pl.Series(unknown)).unique(maintain_order=True))
        text = f"{column!r} has classes that were not there before, {words}: as if they had no label"
        report.add(table.places.finding("warning", "unknown-class", text, unknown))
    return torch.from_numpy(y), {"task": "classes", "columns": [column], "classes": classes}


def _several(
    table: Table, column: str, values: pl.Series, schema: Schema, report: Report, known: Target | None
) -> tuple[Tensor, Target]:
    """A list of labels in each cell."""
    separator = known["separator"] if known is not None else separator_of(values, schema)
    pairs = split_words(values, separator)
    names = known["classes"] if known is not None else pairs["word"].unique().sort().to_list()
    place = positions(pairs["word"], pl.Series(names, dtype=pl.String))
    row, unknown = pairs["row"].to_numpy(), place < 0
    if unknown.any():
        words = named(pairs["word"].filter(pl.Series(unknown)).unique(maintain_order=True))
        text = f"{column!r} has labels that were not there before, {words}: left out"
        report.add(table.places.finding("warning", "unknown-class", text, np.unique(row[unknown])))
    y = torch.zeros(len(values), len(names))
    y[torch.from_numpy(row[~unknown]), torch.from_numpy(place[~unknown])] = 1
    y[torch.from_numpy(values.is_null().to_numpy())] = float("nan")
    return y, {"task": "multi-label", "columns": [column], "classes": names, "separator": separator}


def _numbers(
    table: Table, columns: list[str], values: list[pl.Series], task: str, report: Report
) -> tuple[Tensor, Target]:
    parts = []
    for column, value in zip(columns, values):
        number = _as_numbers(value)
        odd = number.is_null() & value.is_not_null()
        wanted = "numbers"
        if task == "multi-label":
            odd, wanted = ~_is_binary(value) & value.is_not_null(), "0 or 1"
        if bool(odd.any()):
            found = named(value.filter(odd).unique(maintain_order=True))
            text = f"{column!r} must be {wanted} for {task}, but is {found}"
            report.add(table.places.finding("error", "not-a-number", text, odd.to_numpy()))
        parts.append(number.fill_null(float("nan")).to_numpy())
    if task == "classes":
        text = f"task: classes needs one column of labels, but there are {named(columns)}"
        report.add(table.places.finding("error", "columns", text))
    y = torch.from_numpy(np.stack(parts, axis=1).astype(np.float32))
    target: Target = {"task": task, "columns": columns}
    if task == "multi-label":
        target["classes"] = columns
    return (y.squeeze(1) if len(columns) == 1 else y), target


def _without_missing(values: pl.Series) -> pl.Series:
    """With null for NaN, and for the words that stand for it where all others are numbers."""
    if values.dtype.is_float():
        return values.fill_nan(None)
    if values.dtype != pl.String:
        return values
    missing = values.str.to_lowercase().is_in(MISSING)
    if not bool(missing.any()):
        return values
    rest = pl.select(pl.when(~missing).then(values)).to_series().alias(values.name)
    return rest if _as_numbers(rest).null_count() == rest.null_count() else values


def _is_binary(values: pl.Series) -> pl.Series:
    """0, 1 or nothing."""
    numbers = _as_numbers(values)
    return ((numbers == 0) | (numbers == 1)).fill_null(False) | values.is_null()


def _as_numbers(values: pl.Series) -> pl.Series:
    return values.cast(pl.Float64, strict=False)
