"""Shared steps of reading one graph and reading many graphs from a folder of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor

from tgnn.data.splits import Split, labeled_mask
from tgnn.data.tables.columns import ColumnRoles, find_roles
from tgnn.data.tables.features import Features, apply, encode
from tgnn.data.tables.labels import Target, read_labels
from tgnn.data.tables.schema import FILE, make_schema, read_schema
from tgnn.data.tables.split_column import read_split
from tgnn.data.tables.standardize import standardization_findings
from tgnn.data.tables.table_file import SUFFIXES, TableData, TableFile, find, open_table_file
from tgnn.data.validation.report import Locations, ValidationReport, quoted
from tgnn.data.validation.value_checks import check_edge_weights, check_feature_values, check_labels

STEMS = ("nodes", "edges", "graphs")
VERSION = 1
"""Version of ``data.encoding``."""


@dataclass
class TableWithRoles:
    """A table, its rows and the roles of its columns."""

    source: TableFile
    roles: ColumnRoles
    table: TableData

    @property
    def frame(self) -> pl.DataFrame:
        return self.table.frame

    @property
    def places(self) -> Locations:
        return self.table.places

    def column(self, role: str) -> pl.Series:
        """Return the column with that role, such as ``"id"``."""
        return self.table.frame[self.roles.by_role[role]]

    def details(self) -> list[str]:
        """Return the weight column and the feature columns."""
        kept = [name for name, kind in self.roles.features.items() if kind != "ignore"]
        return [self.roles.by_role[role] for role in ("weight",) if role in self.roles.by_role] + kept


class FolderReader:
    """Reader of a folder of tables.

    Args:
        folder: Folder of the tables.
        kind: Name of the format in the report: ``"table"`` or ``"graph tables"``.
        encoding: ``data.encoding`` of the training data, for new data. It replaces the schema of the folder.
        schema: Schema as a dictionary. Default: the content of ``schema.yaml``.
    """

    def __init__(
        self,
        folder: Path | str,
        kind: str,
        encoding: Mapping[str, Any] | None,
        schema: Mapping[str, Any] | None,
    ) -> None:
        self.folder, self.known = Path(folder), encoding
        self.largest = 1.0 if encoding is None else float(encoding.get("largest_weight", 1))
        self.report = ValidationReport(str(folder), kind)
        if encoding is None:
            try:
                self.schema = read_schema(self.folder) if schema is None else make_schema(schema)
            except ValueError as error:
                self.report.fail(Locations(FILE).finding("error", "schema", str(error)))
            self._check_sections()
            return
        if encoding.get("version") != VERSION or encoding.get("kind") != kind:
            raise ValueError(
                f"encoding has the format {encoding.get('kind')!r} and the version {encoding.get('version')}, but "
                f"{folder} has the format {kind!r} and needs version {VERSION}."
            )
        self.schema = make_schema(encoding["schema"])
        if (self.folder / FILE).exists():
            text = "the file is ignored because new data has the columns of the training data"
            self.report.add(Locations(FILE).finding("note", "schema-unused", text))

    def _check_sections(self) -> None:
        """Report sections of the schema for tables that do not exist, which would have no effect."""
        there = [stem for stem in STEMS if find(self.folder, stem) is not None]
        for stem in STEMS:
            if stem not in there and getattr(self.schema, stem).model_dump(exclude_defaults=True):
                text = f"the section {stem!r} has no table {stem}.csv; the folder has {quoted(there)}"
                self.report.add(Locations(FILE).finding("error", "schema", text))
        self.report.raise_for_errors()

    def locate(
        self, stem: str, part: str, labels: bool = False, scratch: Path | None = None
    ) -> tuple[TableFile, ColumnRoles]:
        """Find a table and assign roles to its columns. A missing table is an error.

        Args:
            stem: ``"nodes"``, ``"edges"`` or ``"graphs"``.
            part: Type of table, see :func:`~tgnn.data.tables.columns.find_roles`.
            labels: Whether the table may have label columns.
            scratch: Folder for decompressed files. Default: files are decompressed in memory.
        """
        path = find(self.folder, stem)
        if path is None:
            raise FileNotFoundError(
                f"{self.folder} has no table {stem} ({', '.join(f'{stem}{suffix}' for suffix in SUFFIXES)})."
            )
        source = open_table_file(path, self.report, scratch)
        given = getattr(self.schema, stem)
        if self.known is not None:  # new data may have no labels
            absent = {
                role: None
                for role in ("label", "split")
                if not set(_as_list(getattr(given, role, None))) <= set(source.columns)
            }
            given = given.model_copy(update=absent)
        roles = find_roles(source, part, given, self.report, labels, guess=self.known is None)
        self.report.raise_for_errors()
        return source, roles

    def open(self, stem: str, part: str, labels: bool = False) -> TableWithRoles:
        """Read a table into memory. A missing table is an error.

        Args:
            stem: ``"nodes"``, ``"edges"`` or ``"graphs"``.
            part: Type of table, see :func:`~tgnn.data.tables.columns.find_roles`.
            labels: Whether the table may have label columns.
        """
        source, roles = self.locate(stem, part, labels)
        known = [] if self.known is None else self.known.get(stem, [])
        string_columns = {encoding["column"] for encoding in known if encoding["kind"] != "numeric"}
        table = source.read(roles.text() | string_columns, self.report)
        table.check_scalar_columns(roles.by_role, self.report)
        self.report.raise_for_errors()
        return TableWithRoles(source, roles, table)

    def features(self, part: TableWithRoles, stem: str) -> Features:
        """Encode the features of a table, with the encoding of the training data for new data."""
        if self.known is not None:
            solution = "or train again with a fill value in schema.yaml (fill: mean)"
            return apply(part.table, self.known[stem], self.report, part=stem, solution=solution)
        features = encode(part.table, part.roles.features, self.schema, stem, self.report)
        if features.encodings:
            self.report.add(part.places.finding("note", "features", f"features: {features.describe()}"))
        self.report.add(*standardization_findings(features.max_abs(), part.places.file, self.schema.standardize))
        return features

    def targets(self, part: TableWithRoles) -> tuple[Tensor | None, Target | None, Split | None]:
        """Read the labels of a table, their description, and the user's own split. New data has no split.

        Args:
            part: The table of the labeled nodes or graphs.
        """
        y = target = split = None
        if part.roles.labels:
            known = None if self.known is None else self.known["target"]
            y, target = read_labels(part.table, part.roles.labels, self.schema, self.report, known)
            self.report.add(*check_labels(y, part.places, target.get("classes")))
        if "split" in part.roles.by_role and self.known is None:
            labeled = None if y is None else labeled_mask(y)
            split = read_split(part.table, part.roles.by_role["split"], labeled, self.report)
        return y, target, split

    def edge_details(self, part: TableWithRoles, rows: np.ndarray) -> tuple[dict[str, Tensor], Features]:
        """Return ``edge_weight`` and ``edge_attr`` of the edges that come from these rows."""
        found: dict[str, Tensor] = {}
        if "weight" in part.roles.by_role:
            weight = self._weights(part)
            column = part.roles.by_role["weight"]
            as_feature = f"read the column as an edge feature (edges: {{features: {{{column}: numeric}}}})"
            rescale = f"set scale_weights: true in schema.yaml, or {as_feature}"
            remove = f"remove the edge, or {as_feature}"
            self.report.add(*check_edge_weights(weight, part.places, rescale, remove))
            found["edge_weight"] = torch.from_numpy(weight[rows])
        features = self.features(part, "edges")
        if (matrix := features.matrix()) is not None:
            self.check(matrix, features, part, "edge feature")
            found["edge_attr"] = matrix[torch.from_numpy(rows)]
        return found, features

    def check(self, matrix: Tensor | None, features: Features, part: TableWithRoles, what: str = "feature") -> None:
        """Check the values of a feature matrix. Constant columns are not reported for new data."""
        if matrix is None:
            self.report.add(part.places.finding("warning", "no-features", "the nodes have no features"))
            return
        found = check_feature_values(matrix, part.places, features.names(), what)
        self.report.add(*(finding for finding in found if self.known is None or finding.level == "error"))

    def _weights(self, part: TableWithRoles) -> np.ndarray:
        values = part.column("weight")
        numbers = values.cast(pl.Float32, strict=False)
        wrong = numbers.is_null() & values.is_not_null()
        if bool(wrong.any()):
            text = f"the edge weight must be a number, got {quoted(values.filter(wrong).unique(maintain_order=True))}"
            self.report.add(part.places.finding("error", "not-a-number", text, wrong.to_numpy()))
        if numbers.null_count() > int(wrong.sum()):
            text = "the edge weight is missing"
            self.report.add(part.places.finding("error", "missing-weight", text, values.is_null().to_numpy()))
        weight: np.ndarray = numbers.fill_null(0).to_numpy()
        if not self.schema.scale_weights:
            return weight
        if self.known is None:
            self.largest = max(1.0, float(weight.max(initial=0)))
        text = f"edge weights are divided by {self.largest:g}, the largest weight"
        self.report.add(part.places.finding("note", "scaled-weights", text))
        return weight / np.float32(self.largest)

    def encoding(
        self,
        nodes: Features | None,
        edges: Features,
        target: Mapping[str, Any] | None,
        parts: Mapping[str, TableWithRoles],
    ) -> dict[str, Any]:
        """Return ``data.encoding``: everything needed to encode new data the same way, as JSON values.

        Args:
            nodes: Node features.
            edges: Edge features.
            target: Description of the labels.
            parts: The tables by name.
        """
        if self.known is not None:
            return dict(self.known)
        columns = {stem: part.roles.to_schema() for stem, part in parts.items()}
        return {
            "version": VERSION,
            "kind": self.report.format,
            "schema": self.schema.model_dump(mode="json", exclude=set(STEMS)) | columns,
            "nodes": [] if nodes is None else nodes.encodings,
            "edges": edges.encodings,
            "largest_weight": self.largest,
            "sparse": nodes is not None and nodes.is_sparse(),
            "target": None if target is None else dict(target),
        }


def _as_list(columns: str | Sequence[str] | None) -> list[str]:
    return [] if columns is None else [columns] if isinstance(columns, str) else list(columns)
