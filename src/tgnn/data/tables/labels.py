"""Reader of label columns (classes, multiple labels or numbers) and of the user's own split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor

from tgnn.data.splits import PARTS, Split, from_column, labeled_mask
from tgnn.data.tables.features import find_words, separator_of, split_words
from tgnn.data.tables.ids import as_ids, positions
from tgnn.data.tables.numeric import MISSING, as_numbers
from tgnn.data.tables.schema import Schema
from tgnn.data.tables.table_file import Table, examples
from tgnn.data.validation.checks import check_labels
from tgnn.data.validation.report import quoted, subject

_FEW_CLASSES = 10  # more distinct integers than this may be a regression target
_ROWS_PER_CLASS = 5  # many integers with fewer rows each, on average, are a regression target
_MANY_FLOATS = 100  # more distinct integers written as 1.0 than this are a regression target

Target = dict[str, Any]
"""JSON values: ``task``, ``columns`` and, for classification, ``classes`` with the names of the classes."""


def read_labels(table: Table, columns: list[str], schema: Schema, known: Target | None = None) -> tuple[Tensor, Target]:
    """Read and check the target of each row, and describe it. New labels are encoded like the ``known`` target.

    Shapes:
        - classification: int64 ``[N]``, -1 without a label
        - multi-label: float32 ``[N, labels]`` with 0 and 1, NaN without a label
        - regression: float32 ``[N]`` or ``[N, columns]``, NaN without a label
    """
    task = known["task"] if known is not None else schema.task
    if known is not None and len(columns) != len(known["columns"]):
        trained = quoted(known["columns"])
        table.fail("columns", f"the labels are {quoted(columns)}, but those of the training data were {trained}")
    _check_label_types(table, columns, task)
    values = {column: _without_missing(table.series[column]) for column in columns}
    task = task or _infer_task(table, values)
    if len(columns) > 1 or task == "regression":
        y, target = _read_numbers(table, values, task)
    elif task == "multi-label":
        y, target = _read_label_lists(table, columns[0], values[columns[0]], schema, known)
    else:
        y, target = _read_classes(table, columns[0], values[columns[0]], known)
    check_labels(y, table, target.get("classes"))
    return y, target


def warn_of_missing_label(table: Table, columns: list[str]) -> None:
    """Report that no column has the labels, with the option to type for the last column that could have them."""
    text = "no column is named label, y, target or class"
    if columns:
        read = {name: table.series[name] for name in columns if name in table.series}
        few = [name for name, v in read.items() if not v.dtype.is_nested() and v.n_unique() <= _FEW_CLASSES]
        text += f"; name the column to predict, e.g. --target {(few or columns)[-1]}"
    table.warning("no-label", text)


def missing_labels_text(missing: Sequence[str], columns: Sequence[str]) -> str:
    """Return the error of new data that must have labels but does not have their columns."""
    text = subject("column", missing, "of the labels is", "of the labels are")
    return f"{text} missing; the columns are {quoted(columns, 20)}; --target names another column of labels"


def read_split(table: Table, column: str, labeled: Tensor | None) -> Split | None:
    """Read the user's own split from a column. Rows without a label are in no set."""
    values = table.series[column].cast(pl.String)
    unknown = [value for value in values.drop_nulls().unique(maintain_order=True) if not _is_split_name(value)]
    text = f"column {column!r} contains {quoted(unknown)}, but only train, val, test and empty cells are allowed"
    if table.error("unknown-part", text, values.is_in(unknown).fill_null(False)):
        return None
    if labeled is None:
        table.warning("split-without-labels", f"column {column!r} is ignored because there are no labels")
        return None
    text = f"column {column!r} assigns a set, but the row has no label, so it is in no set"
    if table.warning("split-without-label", text, ~labeled.numpy() & values.is_not_null().to_numpy()):
        values = pl.select(pl.when(pl.Series(labeled.numpy())).then(values)).to_series()
    split = from_column(values.to_list())
    if not len(split.train):
        table.error("no-training", f"column {column!r} assigns no labeled row to the training set ('train')")
    return split


def target_statistics(target: Mapping[str, Any] | None, y: Tensor | None) -> dict[str, Any]:
    """Return the statistics of the labels for the report."""
    if target is None or y is None:
        return {}
    counted = "classes" if "classes" in target else "targets"
    count = len(target.get("classes", target["columns"]))
    return {"task": target["task"], counted: count, "labeled": int(labeled_mask(y).sum())}


def graph_statistics(arrays: Mapping[str, Any], target: Mapping[str, Any] | None) -> dict[str, Any]:
    """Count graphs, nodes, edges, features and targets of concatenated arrays for the report."""
    counts = {"graphs": len(arrays["num_nodes"])}
    counts |= {name: int(arrays[f"num_{name}"].sum()) for name in ("nodes", "edges")}
    for name, array in (("features", "x"), ("edge features", "edge_attr")):
        if array in arrays:
            counts[name] = arrays[array].shape[1]
    counts |= target_statistics(target, torch.from_numpy(arrays["y"]) if "y" in arrays else None)
    if "split" in arrays:
        counts |= {part: int((arrays["split"] == code).sum()) for code, part in enumerate(PARTS)}
    return counts


def _check_label_types(table: Table, columns: list[str], task: str | None) -> None:
    """Raise an error for unsupported column types. Lists are allowed for multi-label targets only."""
    for column in columns:
        dtype = table.series[column].dtype
        is_list = isinstance(dtype, pl.List | pl.Array) and not dtype.inner.is_nested()
        supported = is_list and len(columns) == 1 and task in (None, "multi-label")
        if (dtype.is_nested() or dtype.is_temporal() or dtype in (pl.Binary, pl.Object)) and not supported:
            text = f"column {column!r} has the type {dtype}, which cannot be a label; use strings or numbers"
            table.fail("unknown-kind", text)


def _infer_task(table: Table, columns: Mapping[str, pl.Series]) -> str:
    """Infer the task type: strings and few integers are classes, several columns of 0 and 1 are multiple labels."""
    if len(columns) > 1:
        binary = all(bool(_is_binary(values).all()) for values in columns.values())
        return "multi-label" if binary else "regression"
    ((column, values),) = columns.items()
    if isinstance(values.dtype, pl.List | pl.Array):
        return "multi-label"
    if values.dtype == pl.String and bool(values.str.contains(";", literal=True).any()):
        text = f"column {column!r} contains ';'; if cells are lists of labels, set task: multi-label in schema.yaml"
        table.warning("labels-like-lists", text)
    form = _number_format(values)
    if form not in ("whole", "floats"):
        return "regression" if form == "fractions" else "classification"
    integers = as_numbers(values).drop_nulls()
    count = integers.n_unique()
    is_rare = len(integers) < _ROWS_PER_CLASS * count or (form == "floats" and count > _MANY_FLOATS)
    if count > _FEW_CLASSES and is_rare:
        hint = "read as numbers (for classes: --task classification)"
        table.warning("integers-as-numbers", f"column {column!r} has {count:,} different integers; {hint}")
        return "regression"
    hint = "read as classes (for numbers: --task regression)"
    if form == "floats":
        table.warning("classes-as-floats", f"column {column!r} has integers written as 1.0; {hint}")
    elif count > _FEW_CLASSES:
        table.warning("classes-as-numbers", f"column {column!r} has {count:,} different integers; {hint}")
    return "classification"


def _number_format(values: pl.Series) -> str:
    """Return how labels are written: ``"whole"`` (1), ``"floats"`` (1.0), ``"fractions"`` (1.5) or ``"words"``."""
    numbers = as_numbers(values)
    if values.dtype == pl.Boolean or numbers.null_count() > values.null_count():
        return "words"
    if as_ids(values).dtype == pl.Int64 and not values.dtype.is_float():
        return "whole"
    if not bool(((numbers == numbers.floor()) & (numbers.abs() < 2**53)).all()):
        return "fractions"
    plain = values.dtype == pl.String and not bool(values.str.contains(r"[.eE]").any())
    return "words" if plain else "floats"  # 01 is a name


def _read_classes(table: Table, column: str, values: pl.Series, known: Target | None) -> tuple[Tensor, Target]:
    form = _number_format(values)
    if form == "floats":
        values = as_numbers(values)
    values = values.cast(pl.Int64 if form in ("whole", "floats") else pl.String)
    names = values.drop_nulls().unique().sort() if known is None else pl.Series(known["classes"])
    classes = names.to_list()
    if known is None and (empty := [name for name in classes if str(name).lower() in MISSING]):
        count = int(values.cast(pl.String).is_in(empty).sum())
        text = f"column {column!r} has the class {quoted(empty)} ({count:,} rows); leave cells empty for no label"
        table.warning("class-like-missing", text)
    if values.dtype != names.dtype:
        values, names = values.cast(pl.String), names.cast(pl.String)
    y = positions(values, names)
    unknown = (y < 0) & values.is_not_null().to_numpy()
    words = examples(values, unknown)
    text = f"column {column!r} has unknown classes, not in the training data: {words}; read as missing labels"
    table.warning("unknown-class", text, unknown)
    return torch.from_numpy(y), {"task": "classification", "columns": [column], "classes": classes}


def _read_label_lists(
    table: Table, column: str, values: pl.Series, schema: Schema, known: Target | None
) -> tuple[Tensor, Target]:
    """Read a column with a list of labels in each cell."""
    separator = known["separator"] if known is not None else separator_of(values, schema)
    names = known["classes"] if known is not None else split_words(values, separator)["word"].unique().sort().to_list()
    rows, index, unknown, words = find_words(values, separator, names)
    text = f"column {column!r} has unknown labels, not in the training data: {words}; ignored"
    table.warning("unknown-class", text, unknown)
    y = np.zeros((len(values), len(names)), dtype=np.float32)
    y[rows, index] = 1
    y[values.is_null().to_numpy()] = np.nan
    return torch.from_numpy(y), {"task": "multi-label", "columns": [column], "classes": names, "separator": separator}


def _read_numbers(table: Table, columns: Mapping[str, pl.Series], task: str) -> tuple[Tensor, Target]:
    parts = []
    for column, values in columns.items():
        numbers = as_numbers(values)
        valid, expected = (_is_binary(values), "0 or 1") if task == "multi-label" else (~numbers.is_null(), "numbers")
        invalid = ~valid & values.is_not_null()
        text = f"column {column!r} contains {examples(values, invalid)}, but {task} labels must be {expected}"
        table.error("not-a-number", text, invalid)
        parts.append(numbers.fill_null(float("nan")).to_numpy())
    if task == "classification":
        text = f"task: classification needs one label column, but there are {len(columns)}: {quoted(columns)}"
        table.error("columns", text)
    y = torch.from_numpy(np.stack(parts, axis=1).astype(np.float32))
    target: Target = {"task": task, "columns": list(columns)}
    if task == "multi-label":
        target["classes"] = list(columns)
    return (y.squeeze(1) if len(columns) == 1 else y), target


def _without_missing(values: pl.Series) -> pl.Series:
    """Replace NaN, and strings such as ``n/a`` among numbers, by null, and ``1,000`` by ``1000``."""
    if values.dtype.is_float():
        return values.fill_nan(None)
    if values.dtype != pl.String:
        return values
    plain = values.str.replace_all(",", "", literal=True)
    if bool((as_numbers(values).is_not_null() & (plain != values)).any()):
        values = plain
    missing = values.str.to_lowercase().is_in(MISSING)
    if not bool(missing.any()):
        return values
    rest = pl.select(pl.when(~missing).then(values)).to_series().alias(values.name)
    return rest if as_numbers(rest).null_count() == rest.null_count() else values


def _is_binary(values: pl.Series) -> pl.Series:
    """Return a mask of the values that are 0, 1 or missing."""
    return as_numbers(values).is_in([0.0, 1.0]).fill_null(False) | values.is_null()


def _is_split_name(value: str) -> bool:
    try:
        from_column([value])
    except ValueError:
        return False
    return True
