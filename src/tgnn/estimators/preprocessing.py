"""Preprocessing of graphs in memory with the encodings of tables: scales, categories, missing values and degrees."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor
from torch_geometric.data import Data

from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.tables.columns import ColumnRoles
from tgnn.data.tables.features import apply, infer_encodings
from tgnn.data.tables.frames import to_polars
from tgnn.data.tables.numeric import Encoding, NumericColumn, scale_of, standardized, width_of
from tgnn.data.tables.schema import Schema
from tgnn.data.tables.table_file import Table
from tgnn.data.transforms import add_degree_feature, scale_columns
from tgnn.data.validation.report import Reporter, ValidationReport

logger = logging.getLogger("tgnn")


class Preprocessor:
    """Encode the features of graphs as ``tgnn train`` encodes those of tables.

    Numbers are standardized, strings of data frames are categories, missing numbers are replaced by the mean, and nodes
    without features get their degree. Categories (integer tensors) are not changed.

    Args:
        encoding: Encoding of the training data, as JSON values. ``None`` fits the encoding to the data.
        standardize: Whether to standardize numbers.
        needs_features: Whether the model needs node features.
    """

    def __init__(
        self, encoding: Mapping[str, Any] | None, standardize: bool = True, needs_features: bool = True
    ) -> None:
        self._known, self._schema = encoding, Schema(standardize=standardize)
        self._needs_features = needs_features
        self.encoding: dict[str, Any] = dict(encoding or {})
        """Encoding of the training data, after the data was encoded."""

    def encode_frame(self, frame: Any) -> Tensor:
        """Encode a data frame with a row per node. Columns are found by name."""
        report = ValidationReport("X", "frame")
        frame = to_polars(frame)
        table = Table(report, "X", "row", frame=frame, roles=ColumnRoles(features=dict.fromkeys(frame.columns)))
        if self._known is None:
            self.encoding["nodes"] = infer_encodings(table, self._schema)
        features = apply(table, self.encoding.get("nodes", []), is_new=self._known is not None)
        report.raise_for_errors()
        for finding in report.findings:
            if finding.level == "warning":
                logger.warning("%s", finding)
        matrix = features.matrix(features.is_sparse())
        if matrix is None:
            raise ValueError("X has no column that can be a feature")
        return matrix

    def scale(self, x: Tensor, part: str = "nodes") -> Tensor:
        """Standardize a matrix of numbers and replace NaN by the mean of its column. ``part`` is nodes or edges."""
        if not x.is_floating_point():
            return x
        is_sparse = x.layout == torch.sparse_csr
        if is_sparse and self._known is None:
            nonzero = torch.bincount(x.col_indices()[x.values() != 0], minlength=x.size(1))
            if bool((2 * nonzero >= x.size(0)).any()):  # such columns are centered
                x, is_sparse = x.to_dense(), False
        if self._known is None:
            self.encoding[part] = [_sparse_scale(x, self._schema) if is_sparse else _dense_scale(x, self._schema)]
        encodings: list[Encoding] = self.encoding.get(part) or []
        numeric = all(encoding["kind"] == "numeric" for encoding in encodings)
        if not encodings or not numeric or sum(map(width_of, encodings)) != x.size(1):
            return x  # other widths are reported when the data is compared with that of fit
        if is_sparse:
            mean, deviation = (torch.from_numpy(part).float() for part in scale_of(encodings))
            return scale_columns(x, 1 / deviation, -mean / deviation)
        block = x.double().numpy()
        gaps = np.isnan(block)
        if gaps.any():
            fills = [np.broadcast_to(one.get("fill", np.nan), one["width"]) for one in encodings]
            block = np.where(gaps, np.concatenate(fills), block)
            what = "rows of X have" if part == "nodes" else "edges have"
            logger.warning("%d %s a missing number, filled with the mean of its column", gaps.any(1).sum(), what)
        return torch.from_numpy(standardized(block, encodings))

    def finish(self, data: Data | GraphDataset) -> None:
        """Scale edge features, and add the degree of nodes without features, in place."""
        if data.edge_attr is not None:
            data.edge_attr = self.scale(data.edge_attr, "edges")
        if self._needs_features and add_degree_feature(data, self._known):
            encoding = data.encoding
            assert encoding is not None
            self.encoding["degree"] = encoding["degree"]


def _dense_scale(x: Tensor, schema: Schema) -> Encoding:
    column = NumericColumn("x", "numeric")
    column.update(pl.Series("x", x.double().numpy()))
    return column.encoding(Reporter(ValidationReport("X", "matrix")), schema)


def _sparse_scale(x: Tensor, schema: Schema) -> Encoding:
    """Return the root mean square of the nonzero values of each column, as for columns of mostly zeros in tables."""
    columns, values = x.col_indices(), x.values().double()
    count = torch.bincount(columns[values != 0], minlength=x.size(1))
    squares = torch.zeros(x.size(1), dtype=torch.float64).index_add(0, columns, values**2)
    scale = (squares / count.clamp(min=1)).sqrt()
    scale = torch.where((scale > 0) & bool(schema.standardize), scale, 1.0)
    width = x.size(1)
    return {"column": "x", "kind": "numeric", "width": width, "mean": [0.0] * width, "deviation": scale.tolist()}
