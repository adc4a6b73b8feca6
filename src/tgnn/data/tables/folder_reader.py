"""What reading one graph and reading many have in common: a folder of tables, its schema, and what is known already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor

from tgnn.data.tables.columns import Roles, find_roles
from tgnn.data.tables.features import Features, apply, encode
from tgnn.data.tables.schema import FILE, make_schema, read_schema
from tgnn.data.tables.standardize import tell_standard
from tgnn.data.tables.table_file import SUFFIXES, Table, TableFile, find, open_source, unpack
from tgnn.data.validation.report import Places, Report, named
from tgnn.data.validation.value_checks import check_features, check_weights

STEMS = ("nodes", "edges", "graphs")
VERSION = 1
"""Of the encoding; another means that it was made by another version of this package."""


@dataclass
class TableWithRoles:
    """One table and what its columns are."""

    source: TableFile
    roles: Roles
    table: Table

    @property
    def frame(self) -> pl.DataFrame:
        return self.table.frame

    @property
    def places(self) -> Places:
        return self.table.places

    def column(self, role: str) -> pl.Series:
        return self.table.frame[self.roles.of[role]]

    def details(self) -> list[str]:
        """Columns that say something of a row beside its ids."""
        kept = [name for name, kind in self.roles.features.items() if kind != "ignore"]
        return [self.roles.of[role] for role in ("weight",) if role in self.roles.of] + kept


class FolderReader:
    """A folder that is being read.

    Args:
        folder: Where the tables are.
        kind: What to call it in the report.
        encoding: How the data was encoded that is to be followed; its own schema then counts, not the folder's.
        schema: What the columns are; by default what ``schema.yaml`` says.
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
        self.report = Report(str(folder), kind)
        if encoding is None:
            try:
                self.schema = read_schema(self.folder) if schema is None else make_schema(schema)
            except ValueError as error:
                self.report.fail(Places(FILE).finding("error", "schema", str(error)))
            self._check_sections()
            return
        if encoding.get("version") != VERSION or encoding.get("kind") != kind:
            raise ValueError(
                f"the encoding is one of version {encoding.get('version')} for a {encoding.get('kind')}, "
                f"but {folder} is to be read as a {kind} with version {VERSION}"
            )
        self.schema = make_schema(encoding["schema"])
        if (self.folder / FILE).exists():
            text = "not read: the columns are those that were learned from"
            self.report.add(Places(FILE).finding("note", "schema-unused", text))

    def _check_sections(self) -> None:
        """An error for what is said of a table that is not there: it would silently not count."""
        there = [stem for stem in STEMS if find(self.folder, stem) is not None]
        for stem in STEMS:
            if stem not in there and getattr(self.schema, stem).model_dump(exclude_defaults=True):
                text = f"{stem}: is about a table that is not there, only {named(there)}"
                self.report.add(Places(FILE).finding("error", "schema", text))
        self.report.raise_for_errors()

    def locate(
        self, stem: str, part: str, labels: bool = False, scratch: Path | None = None
    ) -> tuple[TableFile, Roles]:
        """Finds one of the tables and what its columns are; an error if it is not there.

        Args:
            stem: ``"nodes"``, ``"edges"`` or ``"graphs"``.
            part: As :func:`~tgnn.data.tables.columns.find_roles` takes it.
            labels: Whether to look for something to predict.
            scratch: Where to unpack what is packed; by default that is done in memory.
        """
        path = find(self.folder, stem)
        if path is None:
            raise FileNotFoundError(
                f"{self.folder} has no {stem}.csv, nor {stem} with another of {', '.join(SUFFIXES[1:])}"
            )
        if scratch is not None and path.name.endswith(".gz"):
            path = unpack(path, scratch, self.report)
        source = open_source(path, self.report)
        given = getattr(self.schema, stem)
        if self.known is not None:  # new data need not have labels
            absent = {
                role: None
                for role in ("label", "split")
                if not set(_listed(getattr(given, role, None))) <= set(source.columns)
            }
            given = given.model_copy(update=absent)
        roles = find_roles(source, part, given, self.report, labels, guess=self.known is None)
        self.report.raise_for_errors()
        return source, roles

    def open(self, stem: str, part: str, labels: bool = False) -> TableWithRoles:
        """Reads one of the tables; an error if it is not there.

        Args:
            stem: As :meth:`locate` takes it, as do the others.
            part: As above.
            labels: As above.
        """
        source, roles = self.locate(stem, part, labels)
        known = [] if self.known is None else self.known.get(stem, [])
        words = {encoding["column"] for encoding in known if encoding["kind"] != "numeric"}
        table = source.read(roles.text() | words, self.report)
        table.check_single(roles.of, self.report)
        self.report.raise_for_errors()
        return TableWithRoles(source, roles, table)

    def features(self, part: TableWithRoles, stem: str) -> Features:
        """The features of a table; as known, if they are."""
        if self.known is not None:
            way_out = "or train again with schema.yaml: fill: mean, as nothing was said then of what to take"
            return apply(part.table, self.known[stem], self.report, part=stem, way_out=way_out)
        features = encode(part.table, part.roles.features, self.schema, stem, self.report)
        if features.encodings:
            self.report.add(part.places.finding("note", "features", f"read as {features.told()}"))
        self.report.add(*tell_standard(features.sizes(), part.places.file, self.schema.standardize))
        return features

    def edge_details(self, part: TableWithRoles, rows: np.ndarray) -> tuple[dict[str, Tensor], Features]:
        """``edge_weight`` and ``edge_attr`` of the edges that come from these rows."""
        found: dict[str, Tensor] = {}
        if "weight" in part.roles.of:
            weight = self._weights(part)
            as_feature = (
                f"take them for a feature of the edges (edges: {{features: {{{part.roles.of['weight']}: numeric}}}})"
            )
            way_out = f"say in schema.yaml scale_weights: true, or {as_feature}"
            self.report.add(
                *check_weights(weight, part.places, way_out, f"leave it out, or in schema.yaml {as_feature}")
            )
            found["edge_weight"] = torch.from_numpy(weight[rows])
        features = self.features(part, "edges")
        if (matrix := features.matrix()) is not None:
            self.check(matrix, features, part, "edge feature")
            found["edge_attr"] = matrix[torch.from_numpy(rows)]
        return found, features

    def check(self, matrix: Tensor | None, features: Features, part: TableWithRoles, what: str = "feature") -> None:
        """Puts what is odd in a matrix into the report; in new data a constant column is not."""
        if matrix is None:
            self.report.add(part.places.finding("warning", "no-features", "the nodes have no features"))
            return
        found = check_features(matrix, part.places, features.names(), what)
        self.report.add(*(finding for finding in found if self.known is None or finding.level == "error"))

    def _weights(self, part: TableWithRoles) -> np.ndarray:
        values = part.column("weight")
        numbers = values.cast(pl.Float32, strict=False)
        wrong = numbers.is_null() & values.is_not_null()
        if bool(wrong.any()):
            text = f"the weight must be a number, but is {named(values.filter(wrong).unique(maintain_order=True))}"
            self.report.add(part.places.finding("error", "not-a-number", text, wrong.to_numpy()))
        if numbers.null_count() > int(wrong.sum()):
            text = "an edge without a weight"
            self.report.add(part.places.finding("error", "missing-weight", text, values.is_null().to_numpy()))
        weight: np.ndarray = numbers.fill_null(0).to_numpy()
        if not self.schema.scale_weights:
            return weight
        if self.known is None:
            self.largest = max(1.0, float(weight.max(initial=0)))
        text = f"weights are divided by {self.largest:g}, the largest"
        self.report.add(part.places.finding("note", "scaled-weights", text))
        return weight / np.float32(self.largest)

    def encoding(
        self,
        nodes: Features | None,
        edges: Features,
        target: Mapping[str, Any] | None,
        parts: Mapping[str, TableWithRoles],
    ) -> dict[str, Any]:
        """How it was done, in plain values: to be given to the next reading.

        Args:
            nodes: Their features.
            edges: Their features.
            target: What is predicted.
            parts: The tables by their stems.
        """
        if self.known is not None:
            return dict(self.known)
        columns = {stem: part.roles.named() for stem, part in parts.items()}
        return {
            "version": VERSION,
            "kind": self.report.kind,
            "schema": self.schema.model_dump(mode="json", exclude=set(STEMS)) | columns,
            "nodes": [] if nodes is None else nodes.encodings,
            "edges": edges.encodings,
            "largest_weight": self.largest,
            "sparse": nodes is not None and nodes.is_sparse(),
            "target": None if target is None else dict(target),
        }


def _listed(columns: str | Sequence[str] | None) -> list[str]:
    return [] if columns is None else [columns] if isinstance(columns, str) else list(columns)
