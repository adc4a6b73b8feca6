"""Predict with a trained model, on the run's own data or on new nodes or graphs, and evaluate a finished run again."""

from __future__ import annotations

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
from tgnn.data.dataset_info import DatasetInfo, LoadedData
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.load import find_path, load
from tgnn.data.on_disk import DiskGraph
from tgnn.data.readers.detect import detect_format, read_path
from tgnn.data.tables.compare_encodings import first_difference
from tgnn.data.tables.numeric import rescaling
from tgnn.data.transforms import scale_columns
from tgnn.models import DataShape, get_model
from tgnn.training.config import Config, ModelConfig, TrainConfig
from tgnn.training.loaders import make_inference_batches
from tgnn.training.loop import infer, infer_test_set
from tgnn.training.metrics import Task, check_metric
from tgnn.training.prepare import add_model_inputs, find_device, infer_shape, prepare, transform_features
from tgnn.training.result_details import describe_test_set, output_names
from tgnn.training.run_folder import RunError, RunFolder
from tgnn.utils.io import atomic_path

ROWS_PER_CHUNK = 2**17
"""Rows that are converted and written at once."""
Width = int | tuple[int, ...] | None
"""Number of numeric features, or number of categories of each categorical column, as ``DataShape`` stores it."""
logger = logging.getLogger("tgnn")


class IncompatibleDataError(ValueError):
    """The data cannot be used with the trained model. The message says which part differs."""


@dataclass(frozen=True)
class Predictions:
    """Predictions of a model, one per node or graph.

    Args:
        ids: Ids of the nodes or graphs in the data, or numbers from 0.
        values: Predicted class index or number, ``[N]``; ``[N, T]`` for several labels or numbers.
        probabilities: Probability of each class or label, ``[N, C]``. ``None`` for regression.
        names: Names of the classes, labels or numbers.
    """

    ids: Any
    values: Tensor
    probabilities: Tensor | None
    names: list[str]

    def __len__(self) -> int:
        return len(self.values)

    def table(self, begin: int = 0, end: int | None = None) -> polars.DataFrame:
        """Return all or some rows as a table with the columns ``id``, ``prediction`` and ``probability <name>``."""
        rows = slice(begin, end)
        ids, values = self.ids[rows], self.values[rows]
        columns: dict[str, Any] = {"id": ids.tolist() if hasattr(ids, "tolist") else ids}
        if values.dim() == 1 and self.probabilities is not None:
            columns["prediction"] = [self.names[number] for number in values.tolist()]
        elif values.dim() == 1 or values.size(1) == 1:
            columns["prediction"] = values.reshape(-1).numpy()
        else:
            columns |= {f"prediction {name}": values[:, i].numpy() for i, name in enumerate(self.names)}
        if self.probabilities is not None:
            probabilities = self.probabilities[rows]
            columns |= {f"probability {name}": probabilities[:, i].numpy() for i, name in enumerate(self.names)}
        return polars.DataFrame(columns)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the table to a ``.csv`` or ``.parquet`` file atomically, in chunks of rows."""
        path = Path(path)
        if path.suffix not in (".csv", ".parquet"):
            raise ValueError(f"{path} must end in .csv or .parquet.")
        try:
            with atomic_path(path) as part:
                self._write_csv(part) if path.suffix == ".csv" else self._write_parquet(part)
        except OSError as error:
            reason = error.strerror or str(error).replace(f".{path.name}.part", path.name)
            raise OSError(f"{path} cannot be written: {reason[0].lower()}{reason[1:]}") from error

    def _write_csv(self, path: Path) -> None:
        with path.open("wb") as file:
            for begin, end in _chunks(len(self)):
                self.table(begin, end).write_csv(file, include_header=begin == 0)

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


def predict(
    run: RunFolder | str | os.PathLike[str],
    data: str | os.PathLike[str] | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    device: str = "auto",
) -> Predictions:
    """Predict with the trained model of a run.

    Args:
        run: The run, or the path of its folder.
        data: Name or path of new data in the format of the training data. ``None``: the run's own data.
        out: A ``.csv`` or ``.parquet`` file to write. ``None``: nothing is written.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"mps"``.

    Returns:
        One prediction per node or graph.

    Example:
        >>> import tempfile, tgnn
        >>> folder = tempfile.mkdtemp()
        >>> run = tgnn.train("karate", out=f"{folder}/run", options={"train.epochs": 2})
        >>> predictions = tgnn.predict(run, out=f"{folder}/predictions.csv")
        >>> predictions.table().columns[:3]
        ['id', 'prediction', 'probability 0']
    """
    run = run if isinstance(run, RunFolder) else RunFolder(run)
    if run.is_decoder:
        raise RunError(
            f"{run.path} holds a decoder. Decode received frames with tgnn.training.decoding.decode(run.load_model(), "
            f"code, llr), or compute its error rates with `tgnn evaluate {run.path}`."
        )
    config, info, shape, task = run.config, run.data_info, run.shape, run.task
    torch_device = find_device(device)
    model = run.load_model().to(torch_device)
    config = run.config_with_data(data)
    name = config.data.name
    new_data = _load(config, info)
    _match_encoding(info.get("encoding"), new_data, name)
    new_data = transform_features(new_data, config.data)
    check_compatible(config.model, shape, infer_shape(new_data), name)
    add_model_inputs(new_data, config.model.name)
    batches = make_inference_batches(new_data, None, config.train.batch_size, torch_device)
    outputs = infer(model, batches, config.train.precision, torch_device).cpu()
    values, probabilities = _convert_outputs(task, outputs)
    predictions = Predictions(_ids(new_data), values, probabilities, output_names(info.get("encoding"), shape.outputs))
    if out is not None:
        predictions.write(out)
    return predictions


def evaluate(
    run: RunFolder | str | os.PathLike[str],
    data: str | os.PathLike[str] | None = None,
    *,
    metric: str | None = None,
    device: str = "auto",
) -> dict[str, Any]:
    """Load the data and the model of a run, and compute the metric on the test set.

    Args:
        run: The run, or the path of its folder.
        data: Path of the run's data if it was moved. Other data is refused.
        metric: Metric to compute, such as ``"macro-f1"``. ``None``: that of the run.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"mps"``.

    Returns:
        ``metric``, its value ``test``, the value ``recorded`` after training, the split, and the ``details`` of the
        result (:class:`~tgnn.training.result_details.ResultDetails`).
    """
    run = run if isinstance(run, RunFolder) else RunFolder(run)
    if run.is_decoder:
        from tgnn.training.decoder_runs import evaluate_decoder

        if metric is not None:
            raise RunError(f"{run.path} holds a decoder, whose metric is the bit error rate. Remove --metric.")
        return evaluate_decoder(run, data)
    config, recorded, task = run.config_with_data(data), run.metrics, run.task
    metric = TrainConfig(metric=metric).metric or task.metric
    check_metric(metric, task.target)
    model, torch_device = run.load_model(), find_device(device)
    prepared = prepare(config)
    run.check_unchanged({"data": prepared.data_hash, "split": prepared.split.hash})
    outputs, labels = infer_test_set(model.to(torch_device), prepared, config, torch_device)
    details = describe_test_set(prepared, task, outputs, labels)
    known = {**(recorded.get("details") or {}).get("scores", {}), recorded["metric"]: recorded["test"]}
    return {
        "metric": metric,
        "test": task.score(outputs, labels, metric),
        "recorded": known.get(metric),
        "split": prepared.split.name,
        "split_hash": prepared.split.hash,
        "details": details.model_dump(mode="json", exclude_none=True),
    }


# ---- new data --------------------------------------------------------------------------------------------------


def _load(config: Config, run_info: dict[str, Any]) -> LoadedData:
    """Load data with the encoding (categories, classes, scales) of the training data."""
    name, info = config.data.name, DatasetInfo(**run_info["info"])
    if name in CATALOG:
        return load(name, config.data.root, config.data.offline)
    _check_format(name, run_info["encoding"])
    data, report = read_path(Path(name).expanduser(), encoding=run_info["encoding"])
    report.raise_for_errors()
    for finding in report.findings:
        if finding.level == "warning":
            logger.warning("%s: %s", Path(name).name, finding)
    if (info.level == "graph") != isinstance(data, GraphDataset):
        found = "a data set of graphs" if isinstance(data, GraphDataset) else "one graph"
        raise IncompatibleDataError(f"The model predicts {info.level}s, but {name} is {found}.")
    data.info = info
    return data


_FORMATS = {
    "smiles": "molecules",
    "table": "a folder of tables of one graph",
    "graph tables": "a folder of tables of many graphs",
}


def _check_format(name: str, encoding: Mapping[str, Any] | None) -> None:
    """Check that tables and molecules are not confused."""
    new = detect_format(find_path(name))
    trained = (encoding or {}).get("kind")
    if trained != new and trained in _FORMATS and new in _FORMATS:
        raise IncompatibleDataError(f"The model was trained on {_FORMATS[trained]}, but {name} is {_FORMATS[new]}.")


def _match_encoding(trained: Mapping[str, Any] | None, data: LoadedData, name: str) -> None:
    """Bring converted data to the encoding of the training data, or raise :class:`IncompatibleDataError`.

    Tables are read with the encoding of the run. Converted files have their own encoding, of which only the scale
    of the columns of one graph can be changed. Nothing is checked if an encoding is unknown.
    """
    new = data.encoding if isinstance(data, GraphDataset) else data.get("encoding")
    if not trained or not new:
        return
    trained_format, new_format = (str(encoding.get("kind")) for encoding in (trained, new))
    if trained_format != new_format:
        raise IncompatibleDataError(
            f"The model was trained on {_FORMATS.get(trained_format, trained_format)}, but {name} was converted from "
            f"{_FORMATS.get(new_format, new_format)}."
        )
    difference = first_difference(trained, new, scales=isinstance(data, GraphDataset))
    if difference is not None:
        raise IncompatibleDataError(
            f"{name} is not encoded as the training data: {difference}. Give the tables from which it was converted; "
            "they are read with the encoding of the run."
        )
    if isinstance(data, GraphDataset):
        return
    for part, matrix in (("nodes", "x"), ("edges", "edge_attr")):
        scale = rescaling(trained.get(part) or [], new.get(part) or [])
        factor, shift = (torch.from_numpy(array).float() for array in scale)
        if bool((factor == 1).all()) and not bool(shift.any()):
            continue
        if isinstance(data, DiskGraph):
            data.columns = factor, shift
        else:
            data[matrix] = scale_columns(data[matrix], factor, shift)


def check_compatible(
    model: ModelConfig, trained: DataShape, new: DataShape, data_name: str, model_name: str = "the model"
) -> None:
    """Raise :class:`IncompatibleDataError` unless a trained model can process new data.

    The message names the data and the model.

    Example:
        >>> check_compatible(ModelConfig(), DataShape("node", 4, None, 2), DataShape("node", 3, None, 2), "X")
        Traceback (most recent call last):
        tgnn.training.predict.IncompatibleDataError: X has 3 features, but the model is expecting 4 features ...
    """
    for name in ("features", "edge_features"):
        _check_features(name.replace("_", " "), getattr(trained, name), getattr(new, name), data_name, model_name)
    reads_weights = "edge weights" in get_model(model.name).uses(trained.level)
    if reads_weights and trained.edge_weights and not new.edge_weights:
        raise IncompatibleDataError(f"{data_name} has no edge weights, but {model_name} was trained with edge weights.")
    if reads_weights and new.edge_weights and not trained.edge_weights:
        raise IncompatibleDataError(
            f"{data_name} has edge weights, but {model_name} was trained without edge weights. "
            "Remove them, or train with edge weights."
        )
    if model.arguments.get("pseudo") == "position" and trained.positions != new.positions:
        raise IncompatibleDataError(
            f"{data_name} has node positions with {new.positions or 0} coordinates, but {model_name} was trained with "
            f"{trained.positions} coordinates."
        )


def _check_features(what: str, trained: Width, new: Width, data_name: str, model_name: str) -> None:
    """Check the number of columns, their type, and the number of categories of each categorical column."""
    expected, found = num_features(trained), num_features(new)
    if expected != found:
        raise IncompatibleDataError(  # the wording of scikit-learn, which its own checks expect
            f"{data_name} has {found} {what}, but {model_name} is expecting {expected} {what} as input."
        )
    if expected and isinstance(trained, tuple) != isinstance(new, tuple):
        types = ("categorical (integers)", "numeric (floats)")
        was, now = types if isinstance(trained, tuple) else types[::-1]
        raise IncompatibleDataError(f"The {what} of {data_name} are {now}, but {model_name} was trained with {was}.")
    if isinstance(trained, tuple) and isinstance(new, tuple):
        for column, (known, given) in enumerate(zip(trained, new)):
            if given > known:
                raise IncompatibleDataError(
                    f"Column {column} of the {what} of {data_name} has the category {given - 1}, but {model_name} was "
                    f"trained with the categories 0 to {known - 1}."
                )


def num_features(width: Width) -> int:
    """Return the number of feature columns of a width as :class:`~tgnn.models.DataShape` stores it.

    Example:
        >>> num_features(64), num_features((28, 4)), num_features(None)
        (64, 2, 0)
    """
    return 0 if width is None else len(width) if isinstance(width, tuple) else width


# ---- outputs ---------------------------------------------------------------------------------------------------


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
