"""Reader of label columns: classes, multiple labels or numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor

from tgnn.data.splits import labeled_mask
from tgnn.data.tables.encoders import MISSING, separator_of, split_words
from tgnn.data.tables.ids import as_ids, positions
from tgnn.data.tables.schema import Schema
from tgnn.data.tables.table_file import TableData
from tgnn.data.validation.report import ValidationReport, quoted

_FEW_CLASSES = 10  # more distinct integers than this may be a regression target

Target = dict[str, Any]
"""JSON values: ``task``, ``columns`` and, for classification, ``classes`` with the names of the classes."""


def read_labels(
    table: TableData, columns: list[str], schema: Schema, report: ValidationReport, known: Target | None = None
) -> tuple[Tensor, Target]:
    """Read the target of each row and its description.

    Args:
        table: The rows.
        columns: Label columns.
        schema: Reading options; ``task`` sets the task type.
        report: Collects errors and warnings.
        known: Target description of the training data. New labels are encoded the same way.

    Shapes:
        - classes: int64 ``[N]``, -1 without a label
        - multi-label: float32 ``[N, labels]`` with 0 and 1, NaN without a label
        - regression: float32 ``[N]`` or ``[N, columns]``, NaN without a label
    """
    given_task = known["task"] if known is not None else schema.task
    _check_label_types(table, columns, given_task, report)
    values = [_without_missing(table.frame[column]) for column in columns]
    task = given_task or _infer_task(table, columns, values, report)
    if len(columns) > 1 or task == "regression":
        return _read_numbers(table, columns, values, task, report)
    if task == "multi-label":
        return _read_label_lists(table, columns[0], values[0], schema, report, known)
    return _read_classes(table, columns[0], values[0], report, known)


def target_statistics(target: Mapping[str, Any] | None, y: Tensor | None) -> dict[str, Any]:
    """Return the statistics of the labels for the report."""
    if target is None or y is None:
        return {}
    counted = "classes" if "classes" in target else "targets"
    count = len(target.get("classes", target["columns"]))
    return {"task": target["task"], counted: count, "labeled": int(labeled_mask(y).sum())}


def _check_label_types(table: TableData, columns: list[str], task: str | None, report: ValidationReport) -> None:
    """Raise an error for unsupported column types. Lists are allowed for multi-label targets only."""
    for column in columns:
        dtype = table.frame.schema[column]
        is_list = isinstance(dtype, pl.List | pl.Array) and not dtype.inner.is_nested()
        supported = is_list and len(columns) == 1 and task in (None, "multi-label")
        if (dtype.is_nested() or dtype.is_temporal() or dtype in (pl.Binary, pl.Object)) and not supported:
            text = f"column {column!r} has the type {dtype}, which cannot be a label; use strings or numbers"
            report.fail(table.places.finding("error", "unknown-kind", text))


def _infer_task(table: TableData, columns: list[str], values: list[pl.Series], report: ValidationReport) -> str:
    """Infer the task type: integers and strings are classes, several columns of 0 and 1 are multiple labels."""
    if len(values) > 1:
        binary = all(bool(_is_binary(one).all()) for one in values)
        return "multi-label" if binary else "regression"
    if isinstance(values[0].dtype, pl.List | pl.Array):
        return "multi-label"
    if values[0].dtype == pl.String and bool(values[0].str.contains(";", literal=True).any()):
        text = f"column {columns[0]!r} contains ';'; if cells are lists of labels, set task: multi-label in schema.yaml"
        report.add(table.places.finding("warning", "labels-like-lists", text))
    form = _number_format(values[0])
    hint = "read as classes (for numbers set task: regression in schema.yaml)"
    if form == "floats":
        text = f"column {columns[0]!r} has integers written as 1.0; {hint}"
        report.add(table.places.finding("warning", "classes-as-floats", text))
    elif form == "whole" and (count := values[0].n_unique()) > _FEW_CLASSES:
        text = f"column {columns[0]!r} has {count:,} different integers; {hint}"
        report.add(table.places.finding("warning", "classes-as-numbers", text))
    return "regression" if form == "fractions" else "classes"


def _number_format(values: pl.Series) -> str:
    """Return how labels are written: ``"whole"`` (1), ``"floats"`` (1.0), ``"fractions"`` (1.5) or ``"words"``."""
    numbers = _as_numbers(values)
    if values.dtype == pl.Boolean or numbers.null_count() > values.null_count():
        return "words"
    if as_ids(values).dtype == pl.Int64 and not values.dtype.is_float():
        return "whole"
    if not bool(((numbers == numbers.floor()) & (numbers.abs() < 2**53)).all()):
        return "fractions"
    plain = values.dtype == pl.String and not bool(values.str.contains(r"[.eE]").any())
    return "words" if plain else "floats"  # 01 is a name


def _read_classes(
    table: TableData, column: str, values: pl.Series, report: ValidationReport, known: Target | None
) -> tuple[Tensor, Target]:
    form = _number_format(values)
    if form == "floats":
        values = _as_numbers(values)
    values = values.cast(pl.Int64 if form in ("whole", "floats") else pl.String)
    names = values.drop_nulls().unique().sort() if known is None else pl.Series(known["classes"])
    classes = names.to_list()
    if known is None and (empty := [name for name in classes if str(name).lower() in MISSING]):
        count = int(values.cast(pl.String).is_in(empty).sum())
        text = f"column {column!r} has the class {quoted(empty)} ({count:,} rows); leave cells empty for no label"
        report.add(table.places.finding("warning", "class-like-missing", text))
    if values.dtype != names.dtype:
        values, names = values.cast(pl.String), names.cast(pl.String)
    y = positions(values, names)
    unknown = (y < 0) & values.is_not_null().to_numpy()
    if unknown.any():
        words = quoted(values.filter(pl.Series(unknown)).unique(maintain_order=True))
        text = f"column {column!r} has unknown classes, not in the training data: {words}; read as missing labels"
        report.add(table.places.finding("warning", "unknown-class", text, unknown))
    return torch.from_numpy(y), {"task": "classes", "columns": [column], "classes": classes}


def _read_label_lists(
    table: TableData, column: str, values: pl.Series, schema: Schema, report: ValidationReport, known: Target | None
) -> tuple[Tensor, Target]:
    """Read a column with a list of labels in each cell."""
    separator = known["separator"] if known is not None else separator_of(values, schema)
    pairs = split_words(values, separator)
    names = known["classes"] if known is not None else pairs["word"].unique().sort().to_list()
    index = positions(pairs["word"], pl.Series(names, dtype=pl.String))
    row, unknown = pairs["row"].to_numpy(), index < 0
    if unknown.any():
        words = quoted(pairs["word"].filter(pl.Series(unknown)).unique(maintain_order=True))
        text = f"column {column!r} has unknown labels, not in the training data: {words}; ignored"
        report.add(table.places.finding("warning", "unknown-class", text, np.unique(row[unknown])))
    y = torch.zeros(len(values), len(names))
    y[torch.from_numpy(row[~unknown]), torch.from_numpy(index[~unknown])] = 1
    y[torch.from_numpy(values.is_null().to_numpy())] = float("nan")
    return y, {"task": "multi-label", "columns": [column], "classes": names, "separator": separator}


def _read_numbers(
    table: TableData, columns: list[str], values: list[pl.Series], task: str, report: ValidationReport
) -> tuple[Tensor, Target]:
    parts = []
    for column, value in zip(columns, values):
        number = _as_numbers(value)
        invalid = number.is_null() & value.is_not_null()
        expected = "numbers"
        if task == "multi-label":
            invalid, expected = ~_is_binary(value) & value.is_not_null(), "0 or 1"
        if bool(invalid.any()):
            words = quoted(value.filter(invalid).unique(maintain_order=True))
            text = f"column {column!r} contains {words}, but {task} labels must be {expected}"
            report.add(table.places.finding("error", "not-a-number", text, invalid.to_numpy()))
        parts.append(number.fill_null(float("nan")).to_numpy())
    if task == "classes":
        text = f"task: classes needs one label column, but there are {len(columns)}: {quoted(columns)}"
        report.add(table.places.finding("error", "columns", text))
    y = torch.from_numpy(np.stack(parts, axis=1).astype(np.float32))
    target: Target = {"task": task, "columns": columns}
    if task == "multi-label":
        target["classes"] = columns
    return (y.squeeze(1) if len(columns) == 1 else y), target


def _without_missing(values: pl.Series) -> pl.Series:
    """Replace NaN, and strings such as ``n/a`` among numbers, by null."""
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
    """Return a mask of the values that are 0, 1 or missing."""
    numbers = _as_numbers(values)
    return ((numbers == 0) | (numbers == 1)).fill_null(False) | values.is_null()


def _as_numbers(values: pl.Series) -> pl.Series:
    return values.cast(pl.Float64, strict=False)
