"""What a trained model says of data, old or new."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars
import torch
from torch import Tensor

from tgnn.data.catalog import CATALOG
from tgnn.data.catalog.entry import LoadedData
from tgnn.data.dataset_info import DatasetInfo
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.load import find_path, load
from tgnn.data.on_disk import DiskGraph
from tgnn.data.readers.detect import detect_format, read_path
from tgnn.data.tables.compare_encodings import first_difference
from tgnn.data.tables.standardize import rescaling
from tgnn.data.transforms import scale_columns
from tgnn.models.data_shape import DataShape
from tgnn.training.config import Config, ModelConfig
from tgnn.training.loaders import GRAPHS_AT_ONCE
from tgnn.training.loop import Precision
from tgnn.training.metrics import Task
from tgnn.training.model_check import lacks
from tgnn.training.prepare import complete, infer_shape, transform_features
from tgnn.training.train import find_device, load_model, read_config, read_data_facts, with_data_path

ROWS_AT_ONCE = 2**17
logger = logging.getLogger("tgnn")


class IncompatibleDataError(ValueError):
    """Data that a model cannot be asked about; the text says why."""


@dataclass(frozen=True)
class Predictions:
    """One row for each node or graph.

    Args:
        ids: As the user has them, or numbers from 0; a list or an array.
        values: Class or number, ``[N]``; ``[N, T]`` for several labels or numbers.
        probabilities: Of each class or label, ``[N, C]``; ``None`` for numbers.
        names: Of classes, labels or numbers.
    """

    ids: Any
    values: Tensor
    probabilities: Tensor | None
    names: list[str]

    def __len__(self) -> int:
        return len(self.values)

    def table(self, begin: int = 0, end: int | None = None) -> polars.DataFrame:
        """Columns ``id``, ``prediction`` and ``probability of ...``.

        Args:
            begin: The first row.
            end: The first that is not wanted; ``None``: all.
        """
        some = slice(begin, end)
        ids, values = self.ids[some], self.values[some]
        columns: dict[str, Any] = {"id": ids.tolist() if hasattr(ids, "tolist") else ids}
        if values.dim() == 1 and self.probabilities is not None:
            columns["prediction"] = [self.names[number] for number in values.tolist()]
        elif values.dim() == 1 or values.size(1) == 1:
            columns["prediction"] = values.reshape(-1).numpy()
        else:
            columns |= {f"prediction {name}": values[:, i].numpy() for i, name in enumerate(self.names)}
        if self.probabilities is not None:
            shown = self.probabilities[some]
            columns |= {f"probability {name}": shown[:, i].numpy() for i, name in enumerate(self.names)}
        return polars.DataFrame(columns)

    def write(self, path: Path) -> None:
        """To a ``.csv`` or ``.parquet`` file, whole or not at all; large ones in pieces."""
        part = path.with_name(f".{path.name}.part")
        try:
            if path.suffix == ".csv":
                self._write_csv(part)
            else:
                self._write_parquet(part)
            os.replace(part, path)
        except OSError as error:
            why = error.strerror or str(error).replace(part.name, path.name)
            raise OSError(f"{path} cannot be written: {why[0].lower()}{why[1:]}") from error
        finally:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)

    def _write_csv(self, path: Path) -> None:
        with path.open("wb") as file:
            for begin, end in _pieces(len(self)):
                self.table(begin, end).write_csv(file, include_header=begin == 0)

    def _write_parquet(self, path: Path) -> None:
        """Parquet cannot be added to: pieces go into files of their own, and from there into one."""
        pieces = list(_pieces(len(self)))
        if len(pieces) == 1:
            self.table().write_parquet(path)
            return
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".tgnn-") as folder:
            files = [Path(folder) / f"{begin}.parquet" for begin, _ in pieces]
            for (begin, end), file in zip(pieces, files):
                self.table(begin, end).write_parquet(file, compression="uncompressed")
            polars.scan_parquet(files, glob=False).sink_parquet(path)


def _pieces(rows: int) -> Iterator[tuple[int, int]]:
    for begin in range(0, max(rows, 1), ROWS_AT_ONCE):
        yield begin, min(begin + ROWS_AT_ONCE, rows)


def predict(folder: Path, path: str | None = None, device: str = "auto") -> Predictions:
    """Asks the model of a run about its own data, or about new nodes or graphs.

    Args:
        folder: Of the run.
        path: New data, in the form that the model was trained on; ``None``: the run's own.
        device: To compute on.
    """
    config = read_config(folder)
    shape, task, facts = read_data_facts(folder)
    place = find_device(device)
    model = load_model(folder).to(place)
    config = with_data_path(config, folder, path)
    data = _load(config, path, facts)
    _encode_alike(facts.get("encoding"), data, path or config.data.name)
    data = transform_features(data, config.data)
    _check_shape(shape, data, path or config.data.name, config.model)
    complete(data, config.model.name)
    values, probabilities = _said(task, _outputs(model, data, config, place).cpu())
    return Predictions(_ids(data), values, probabilities, _names(facts, shape.outputs))


def _load(config: Config, path: str | None, facts: dict[str, Any]) -> LoadedData:
    name = path or config.data.name
    info = DatasetInfo(**facts["info"])
    if name in CATALOG:
        return load(name, config.data.root, config.data.offline)
    _check_kind(name, facts["encoding"])
    data, report = read_path(Path(name).expanduser(), encoding=facts["encoding"])
    report.raise_for_errors()
    for finding in report.findings:
        if finding.level == "warning":
            logger.warning("%s: %s", Path(name).name, finding)
    if (info.level == "graph") != isinstance(data, GraphDataset):
        raise IncompatibleDataError(f"the model predicts {info.level}s, and {name} is not a set of such")
    data.info = info
    return data


_KINDS = {
    "smiles": "molecules",
    "table": "a folder of tables of one graph",
    "graph tables": "a folder of tables of many graphs",
}


def _check_kind(name: str, encoding: Mapping[str, Any] | None) -> None:
    """Whether columns of new data can be those that were learned from."""
    kind = detect_format(find_path(name))
    learned = (encoding or {}).get("kind")
    if learned != kind and learned in _KINDS and kind in _KINDS:
        raise IncompatibleDataError(f"the model was trained on {_KINDS[learned]}; {name} is {_KINDS[kind]}")


def _encode_alike(known: Mapping[str, Any] | None, data: LoadedData, name: str) -> None:
    """Makes numbers mean what they meant, or raises. Tables are read as the run's were; what was converted has its own
    encoding, of which only the scale of columns can be changed, and only in one graph.

    Where one of the two does not say how it was encoded, nothing can be said.
    """
    found = data.encoding if isinstance(data, GraphDataset) else data.get("encoding")
    if not known or not found:
        return
    learned, kind = (str(encoding.get("kind")) for encoding in (known, found))
    if learned != kind:
        raise IncompatibleDataError(
            f"the model was trained on {_KINDS.get(learned, learned)}; {name} was made of {_KINDS.get(kind, kind)}"
        )
    different = first_difference(known, found, scales=isinstance(data, GraphDataset))
    if different is not None:
        raise IncompatibleDataError(
            f"{name} is not encoded as what the model was trained on: {different}; give the tables that it was made "
            "of, which are read as the run's were"
        )
    if isinstance(data, GraphDataset):
        return
    for part, matrix in (("nodes", "x"), ("edges", "edge_attr")):
        scale = rescaling(known.get(part) or [], found.get(part) or [])
        factor, shift = (torch.from_numpy(one).float() for one in scale)
        if bool((factor == 1).all()) and not bool(shift.any()):
            continue
        if isinstance(data, DiskGraph):
            data.columns = factor, shift
        else:
            data[matrix] = scale_columns(data[matrix], factor, shift)


def _check_shape(wanted: DataShape, data: LoadedData, name: str, model: ModelConfig) -> None:
    found = infer_shape(data)
    for what in ("features", "edge_features"):
        one, other = getattr(wanted, what), getattr(found, what)
        fits = one == other
        if isinstance(one, tuple) and isinstance(other, tuple):  # categories: fewer of them do no harm
            fits = len(one) == len(other) and all(a >= b for a, b in zip(one, other))
        if not fits:
            raise IncompatibleDataError(
                f"the model was trained with {what.replace('_', ' ')} {one}, and {name} has {other}"
            )
    lacking = lacks(model, wanted, found)
    if lacking is not None:
        raise IncompatibleDataError(f"the model was trained with {lacking}, and {name} has none such")


@torch.no_grad()
def _outputs(model: torch.nn.Module, data: LoadedData, config: Config, device: torch.device) -> Tensor:
    model.eval()
    precision = Precision(config.train.precision, device)
    with precision.lowered():
        if not isinstance(data, GraphDataset):
            out: Tensor = model(data if isinstance(data, DiskGraph) else data.to(device))
            return out.float()
        size = config.train.batch_size or GRAPHS_AT_ONCE
        parts = [model(data.batch(n).to(device)).float() for n in torch.split(torch.arange(len(data)), size)]
    return torch.cat(parts)


def _said(task: Task, outputs: Tensor) -> tuple[Tensor, Tensor | None]:
    """What outputs mean. Of many rows the probabilities take the place of the outputs, which may lie in a file."""
    if len(outputs) <= ROWS_AT_ONCE:
        return task.predictions(outputs)
    values = []
    for begin, end in _pieces(len(outputs)):
        some, probabilities = task.predictions(outputs[begin:end])
        values.append(some)
        if probabilities is not None:
            outputs[begin:end] = probabilities
    return torch.cat(values), None if probabilities is None else outputs


def _ids(data: LoadedData) -> Any:
    count = len(data) if isinstance(data, GraphDataset) else data.num_nodes
    ids = getattr(data, "graph_id", None) if isinstance(data, GraphDataset) else data.get("node_id")
    if ids is None:
        return range(count)
    return ids if isinstance(data, DiskGraph) else ids.tolist()  # those of a graph on disk are read as they are written


def _names(facts: dict[str, Any], outputs: int) -> list[str]:
    target = (facts.get("encoding") or {}).get("target") or {}
    names = target.get("classes") or target.get("labels") or target.get("columns")
    return [str(name) for name in names] if names and len(names) == outputs else [str(n) for n in range(outputs)]
