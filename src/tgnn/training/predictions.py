"""Predictions of nodes or graphs as tables and files, with the ids, sets and labels of the data."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars
import torch
from torch import Tensor

from tgnn.data.dataset_info import LoadedData
from tgnn.data.graph_dataset import GraphDataset, UnreadableRow
from tgnn.data.on_disk import DiskGraph
from tgnn.data.splits import PARTS, Split, labeled_mask, split_codes
from tgnn.training.metrics import Task
from tgnn.utils.io import atomic_path

ROWS_PER_CHUNK = 2**17
"""Rows that are converted and written at once."""
_SHOWN_COLUMNS = 6
"""Maximum number of columns in the representation."""


@dataclass(frozen=True, repr=False)
class Predictions:
    """Predictions of a model, one per node or graph, in the order of the data.

    Args:
        ids: Ids of the nodes or graphs in the data, or numbers from 0.
        values: Predicted class index or number, ``[N]``; ``[N, T]`` for several labels or numbers. -1 or NaN for rows
            that could not be read.
        probabilities: Probability of each class or label, ``[N, C]``. ``None`` for regression.
        names: Names of the classes, labels or numbers.
        labels: Known targets, as ``values``, with -1 or NaN where they are unknown. ``None``: all are unknown.
        split: Code of the set of each row: 0 training, 1 validation, 2 test, -1 none. ``None``: new data.
        unreadable: Rows of the data that could not be read and have no prediction.
        std: Standard deviation over several runs (:func:`tgnn.training.ensemble.average_predictions`), ``[N]`` or
            ``[N, T]``. ``None``: there is one run.
    """

    ids: Any
    values: Tensor
    probabilities: Tensor | None
    names: list[str]
    labels: Tensor | None = None
    split: np.ndarray | None = None
    unreadable: Sequence[UnreadableRow] = ()
    std: Tensor | None = None

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        """Describe the predictions in one line, because their values may fill pages."""
        is_multi_label = self.values.dim() == 2
        task = "regression" if self.probabilities is None else "multi-label" if is_multi_label else "classification"
        names = self.table(0, 1).columns
        columns = ", ".join([*names[:_SHOWN_COLUMNS], *(["..."] if len(names) > _SHOWN_COLUMNS else [])])
        return f"Predictions({task}, {len(self):,} rows, columns: {columns}; .table() or .to_pandas() returns them)"

    def table(self, begin: int = 0, end: int | None = None) -> polars.DataFrame:
        """Return all or some rows as a table.

        The columns are ``id``, ``split`` (of the training data), ``label`` (if known), ``prediction``,
        ``std`` (of several runs) and ``probability <name>``.
        Rows that could not be read have an empty prediction and keep their label.
        """
        rows = slice(begin, end)
        ids = self.ids[rows]
        columns: dict[str, Any] = {"id": ids.tolist() if hasattr(ids, "tolist") else ids}
        if self.split is not None:
            columns["split"] = [PARTS[code] if code >= 0 else None for code in self.split[rows]]
        if self.labels is not None:
            columns |= self._columns("label", self.labels[rows])
        columns |= self._columns("prediction", self.values[rows])
        if self.std is not None:
            deviations = self.std[rows].reshape(len(ids), -1).numpy()
            names = ["std"] if deviations.shape[1] == 1 else [f"std {name}" for name in self.names]
            columns |= {name: deviations[:, i] for i, name in enumerate(names)}
        if self.probabilities is not None:
            probabilities = self.probabilities[rows].numpy()
            columns |= {f"probability {name}": probabilities[:, i] for i, name in enumerate(self.names)}
        frame = polars.DataFrame(columns, strict=False)
        missing = [row.row - begin for row in self.unreadable if 0 <= row.row - begin < frame.height]
        if missing:
            readable = polars.Series(np.isin(np.arange(frame.height), missing, invert=True))
            predicted = polars.selectors.starts_with("prediction", "std", "probability")
            frame = frame.with_columns(polars.when(readable).then(predicted).name.keep())
        return frame

    def to_pandas(self) -> Any:
        """Return all rows as a pandas data frame with the columns of :meth:`table`. pyarrow is not needed."""
        try:
            import pandas  # type: ignore[import-untyped]
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "pandas is not installed. Run `pip install pandas`, or use table(), which returns a polars data frame.",
                name="pandas",
            ) from error
        return pandas.DataFrame({column.name: column.to_numpy() for column in self.table().get_columns()})

    def _columns(self, name: str, values: Tensor) -> dict[str, Any]:
        """Return the columns of targets or predictions. Unknown ones are null."""
        if values.dim() == 1 and self.probabilities is not None:
            return {name: [self.names[number] if number >= 0 else None for number in values.tolist()]}
        columns = [polars.Series(column.numpy()) for column in values.reshape(len(values), -1).unbind(1)]
        if name == "label" and values.is_floating_point():
            columns = [column.fill_nan(None) for column in columns]
        if len(columns) == 1:
            return {name: columns[0]}
        return {f"{name} {target}": column for target, column in zip(self.names, columns)}

    def write(self, path: str | os.PathLike[str], spreadsheet_safe: bool = False) -> None:
        """Write the table to a ``.csv`` or ``.parquet`` file atomically, in chunks of rows.

        Args:
            path: The file to write.
            spreadsheet_safe: Whether to put an apostrophe before a text of a CSV file that a spreadsheet would read as
                a formula.
        """
        path = Path(path)
        if path.suffix not in (".csv", ".parquet"):
            raise ValueError(f"{path} must end in .csv or .parquet.")
        try:
            with atomic_path(path) as part:
                self._write_csv(part, spreadsheet_safe) if path.suffix == ".csv" else self._write_parquet(part)
        except OSError as error:
            reason = error.strerror or str(error).replace(f".{path.name}.part", path.name)
            raise OSError(f"{path} cannot be written: {reason[0].lower()}{reason[1:]}") from error

    def _write_csv(self, path: Path, spreadsheet_safe: bool) -> None:
        with path.open("wb") as file:
            for begin, end in _chunks(len(self)):
                table = self.table(begin, end)
                if spreadsheet_safe:
                    table = table.with_columns(polars.col(polars.String).str.replace(r"^([=+\-@\t\r])", "'$1"))
                table.write_csv(file, include_header=begin == 0)

    def _write_parquet(self, path: Path) -> None:
        """Write chunks to temporary files and merge them, because rows cannot be appended to a Parquet file."""
        chunks = list(_chunks(len(self)))
        if len(chunks) == 1:
            self.table().write_parquet(path)
            return
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".tgnn-") as folder:
            files = [Path(folder) / f"{begin}.parquet" for begin, _ in chunks]
            for (begin, end), file in zip(chunks, files):
                self.table(begin, end).write_parquet(file, compression="uncompressed")
            polars.scan_parquet(files, glob=False).sink_parquet(path)


def _chunks(rows: int) -> Iterator[tuple[int, int]]:
    for begin in range(0, max(rows, 1), ROWS_PER_CHUNK):
        yield begin, min(begin + ROWS_PER_CHUNK, rows)


def make_predictions(
    task: Task, outputs: Tensor, names: list[str], data: LoadedData, split: Split | None = None
) -> Predictions:
    """Convert the outputs of a model for all nodes or graphs to predictions with the ids and labels of the data."""
    values: Tensor | None
    values, probabilities = _convert_outputs(task, outputs)
    y = data.y
    labels = y if y is not None and bool(labeled_mask(y).any()) else None
    codes = None if split is None else split_codes(split)
    unreadable = data.unreadable if isinstance(data, GraphDataset) else ()
    ids = _ids(data)
    if unreadable:
        gaps = [row.row for row in unreadable]
        size = len(outputs) + len(gaps)
        rows = torch.from_numpy(np.setdiff1d(np.arange(size), gaps))
        values, probabilities, labels = (_insert_gaps(part, rows, size) for part in (values, probabilities, labels))
        for row in unreadable:
            if labels is not None and row.y is not None:
                labels[row.row] = row.y
        if codes is not None:
            codes = np.insert(codes, np.array(gaps) - np.arange(len(gaps)), -1)
        by_row = dict(zip(rows.tolist(), ids)) | {row.row: row.id for row in unreadable}
        ids = [by_row[row] for row in range(size)]
    assert values is not None
    return Predictions(ids, values, probabilities, names, labels, codes, unreadable)


def _insert_gaps(values: Tensor | None, rows: Tensor, size: int) -> Tensor | None:
    """Return a tensor of this size with the values at these rows, and -1 or NaN elsewhere."""
    if values is None:
        return None
    with_gaps = values.new_full((size, *values.shape[1:]), float("nan") if values.is_floating_point() else -1)
    with_gaps[rows] = values
    return with_gaps


def _convert_outputs(task: Task, outputs: Tensor) -> tuple[Tensor, Tensor | None]:
    """Convert outputs to predictions. Many rows are converted in place, because the outputs may be a mapped file."""
    if len(outputs) <= ROWS_PER_CHUNK:
        return task.predictions(outputs)
    values = []
    for begin, end in _chunks(len(outputs)):
        chunk, probabilities = task.predictions(outputs[begin:end])
        values.append(chunk)
        if probabilities is not None:
            outputs[begin:end] = probabilities
    return torch.cat(values), None if probabilities is None else outputs


def _ids(data: LoadedData) -> Any:
    count = len(data) if isinstance(data, GraphDataset) else data.num_nodes
    ids = getattr(data, "graph_id", None) if isinstance(data, GraphDataset) else data.get("node_id")
    if ids is None:
        return range(count)
    return ids if isinstance(data, DiskGraph) else ids.tolist()  # the ids of a graph on disk are read when written
