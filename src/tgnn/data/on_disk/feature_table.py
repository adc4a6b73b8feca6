"""Block-wise conversion of the numeric columns of a node table to the features of a graph on disk."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tgnn.data.on_disk.writer import GraphWriter
from tgnn.data.tables.encoders import FEW, Encoding, is_missing, is_row_counter, row_counter_message, width_of
from tgnn.data.tables.features import SPARSE, WIDE, Features, apply
from tgnn.data.tables.folder_reader import TableWithRoles
from tgnn.data.tables.schema import ColumnType, Schema
from tgnn.data.tables.standardize import Moments, standardization_findings
from tgnn.data.tables.table_file import BLOCK_CELLS
from tgnn.data.validation.report import Finding, ValidationReport, quoted
from tgnn.data.validation.value_checks import check_feature_values, constant_features, large_features
from tgnn.utils.progress import bar


@dataclass
class _ColumnStatistics:
    """Statistics of a column, updated block by block."""

    name: str
    kind: ColumnType | None
    there: int = 0
    numbers: int = 0
    width: int = 0
    moments: Moments | None = None
    seen: int = 0
    """Number of rows, including missing values."""
    odd: list[str] = field(default_factory=list)
    counts: bool = True
    """Whether each number is one more than the number before."""
    rows: int = 0
    last: pl.Series | None = None

    def update(self, values: pl.Series) -> None:
        listed = isinstance(values.dtype, pl.List | pl.Array)
        if not listed and values.dtype not in (pl.String, pl.Boolean) and not values.dtype.is_numeric():
            self.odd = [str(values.dtype)] if values.null_count() < len(values) else self.odd
            return
        self.there += len(values) - values.null_count()
        self.seen += len(values)
        if listed:
            inner = values.drop_nulls().explode()
            self.numbers += len(values) - values.null_count() if inner.dtype.is_numeric() else 0
            self.width = self.width or width_of(values)
            found = inner.cast(pl.Float64, strict=False)
        else:
            found = values.cast(pl.Float64, strict=False)
            self._count(found)
            missing = is_missing(values)
            self.there -= int(missing.sum()) - values.null_count()
            self.numbers += int((found.is_not_null() & ~missing).sum())
            self.width = self.width or int(values.null_count() < len(values))
            found = found.filter(~missing)
        if self.width and len(found) % self.width == 0:  # lists of different lengths are reported by the encoder
            self.moments = self.moments or Moments(self.width)
            self.moments.update(found.fill_null(np.nan).to_numpy().reshape(-1, self.width))
        self.counts = self.counts and not listed

    def _count(self, numbers: pl.Series) -> None:
        self.rows += len(numbers)
        if self.counts:
            whole = numbers if self.last is None else pl.concat([self.last, numbers])
            self.counts, self.last = is_row_counter(whole), numbers[-1:]


def find_features(
    nodes: TableWithRoles, schema: Schema, report: ValidationReport, block_cells: int = BLOCK_CELLS
) -> list[Encoding]:
    """Scan all feature columns and return their encodings. Columns that are not numeric are an error.

    Args:
        nodes: The node table.
        schema: Reading options.
        report: Collects errors and warnings.
        block_cells: Number of cells of a table that are read at once.
    """
    kinds = {name: kind for name, kind in nodes.roles.features.items() if kind != "ignore"}
    columns = [_ColumnStatistics(name, kind) for name, kind in kinds.items()]
    if not columns:
        return []
    with bar(f"{nodes.source.name}: scanning features", nodes.source.count_rows()) as tick:
        for table in nodes.source.read_blocks(list(kinds), nodes.roles.text(), report, tick, block_cells):
            for column in columns:
                column.update(table.frame[column.name])
    empty = [column.name for column in columns if not column.width and column.kind is None and not column.odd]
    for name in empty:
        report.add(Finding("warning", "empty-column", f"column {name!r} is empty and ignored", nodes.source.name))
    used = [column for column in columns if column.name not in empty]
    not_numeric = [column.name for column in used if not _is_numeric(column)]
    if not_numeric:
        plural = len(not_numeric) > 1
        text = (
            f"column{'s' * plural} {quoted(not_numeric)} {'are' if plural else 'is'} not numeric, but tables larger "
            "than memory can have numeric features only; ignore such columns (schema.yaml: nodes: features: "
            f"{not_numeric[0]}: ignore), or convert the tables to a .npz file in memory and that file to a folder"
        )
        report.fail(Finding("error", "not-streamed", text, nodes.source.name))
    for column in used:
        if column.counts and column.rows > FEW:
            report.add(
                Finding("warning", "feature-like-ids", row_counter_message(column.name, "nodes"), nodes.source.name)
            )
    return [_encoding(column, schema) for column in used]


def _is_numeric(column: _ColumnStatistics) -> bool:
    if column.odd or column.kind in ("categorical", "tokens"):
        return False
    return column.kind == "numeric" or 2 * column.numbers >= column.there


def _encoding(column: _ColumnStatistics, schema: Schema) -> Encoding:
    encoding: Encoding = {"column": column.name, "kind": "numeric", "width": max(column.width, 1)}
    moments = column.moments
    if moments is None:
        return encoding
    if schema.fill == "mean":
        encoding |= moments.fill()
    elif isinstance(schema.fill, (int, float)):
        moments.update_constant(float(schema.fill), column.seen - moments.count)
    return encoding | moments.scale(schema.standardize)


def add_features(
    writer: GraphWriter,
    nodes: TableWithRoles,
    encodings: list[Encoding],
    schema: Schema,
    report: ValidationReport,
    block_cells: int = BLOCK_CELLS,
) -> bool:
    """Write the features and add fill values to the encodings. Return whether the feature matrix is sparse.

    Args:
        writer: Writer of the graph.
        nodes: The node table.
        encodings: Encodings returned by :func:`find_features`.
        schema: Reading options, with the fill value of missing numbers.
        report: Collects errors and warnings.
        block_cells: Number of cells of a table that are read at once.
    """
    columns = [encoding["column"] for encoding in encodings]
    width, entries, rows = sum(encoding["width"] for encoding in encodings), 0, 0
    least, most = np.full(width, np.inf), np.full(width, -np.inf)
    features = Features(0)
    with bar(f"{nodes.source.name}: writing features", nodes.source.count_rows()) as tick:
        for table in nodes.source.read_blocks(columns, nodes.roles.text(), report, tick, block_cells):
            features = apply(table, encodings, report, schema.fill, "nodes")
            report.raise_for_errors()
            matrix = features.matrix()
            assert matrix is not None
            odd = check_feature_values(matrix, table.places, features.names())
            report.add(*(finding for finding in odd if finding.level == "error"))
            report.raise_for_errors()
            x = matrix.numpy()
            writer.add_nodes(x=x)
            rows, entries = rows + len(x), entries + int(np.count_nonzero(x))
            least, most = np.minimum(least, x.min(axis=0)), np.maximum(most, x.max(axis=0))
    for encoding, filled in zip(encodings, features.encodings):
        encoding |= filled
    ends = (least, most, nodes.source.name, features.names())
    report.add(*large_features(*ends), *(constant_features(*ends) if rows > 1 else ()))
    sizes = np.split(np.maximum(-least, most), np.cumsum([encoding["width"] for encoding in encodings])[:-1])
    report.add(*standardization_findings(zip(encodings, sizes), nodes.source.name, schema.standardize))
    return bool(width >= WIDE and entries <= SPARSE * rows * width)
