"""New data for a trained model: load it with the encoding of the training data, and check that the model can use it."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

from tgnn.data.catalog import CATALOG
from tgnn.data.dataset_info import DatasetInfo, LoadedData, content_hash
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.load import default_protocol, find_path, load
from tgnn.data.on_disk import DiskGraph
from tgnn.data.readers.detect import detect_format, read_frames, read_path
from tgnn.data.splits import Split, choose_split, labeled_mask
from tgnn.data.tables.compare_encodings import first_difference
from tgnn.data.tables.frames import are_frames, log_warnings, to_tables
from tgnn.data.tables.numeric import rescaling, standardized
from tgnn.data.tables.schema import ReadOptions
from tgnn.data.transforms import add_degree_feature, scale_columns
from tgnn.models import DataShape, get_model
from tgnn.training.config import Config, ModelConfig
from tgnn.training.prepare import infer_shape, transform_features
from tgnn.training.run_folder import RunFolder

Width = int | tuple[int, ...] | None
"""Number of numeric features, or number of categories of each categorical column, as ``DataShape`` stores it."""


class IncompatibleDataError(ValueError):
    """The data cannot be used with the trained model. The message says which part differs."""


def load_new_data(
    run: RunFolder, data: Any = None, options: ReadOptions | None = None
) -> tuple[LoadedData, Split | None]:
    """Load and transform data for the model of a run, with the categories, classes and scales of its training data.

    Args:
        run: The run.
        data: Name or path of the data, data frames (:func:`~tgnn.data.tables.frames.to_tables`), a graph or a data
            set of graphs. ``None``: the run's own data.
        options: Column of ids and labels, if they are not those of the training data.

    Returns:
        The data, and its split if it has the content of the run's own data.
    """
    info = run.data_info
    encoding = info.get("encoding")
    if isinstance(data, Data | GraphDataset):
        config, name = run.config, "the graph"
        loaded = _from_graph(data, DatasetInfo(**info["info"]), encoding)
    elif data is not None and not isinstance(data, str | os.PathLike):
        config, name = run.config, "the data"
        loaded = _load_frames(data, info, options or ReadOptions())
    else:
        config = run.config_with_data(data)
        name = config.data.name
        loaded = _load(config, info, options or ReadOptions(use_stored_split=data is None))
    _match_encoding(encoding, loaded, name)
    loaded = transform_features(loaded, config.data)
    check_compatible(config.model, run.shape, infer_shape(loaded), name)
    if loaded.y is None or not bool(labeled_mask(loaded.y).any()) or content_hash(loaded) != info["data_hash"]:
        return loaded, None
    split = choose_split(loaded, config.data.split or default_protocol(loaded), config.train.seed)
    return loaded, split if split.hash == info["split"]["hash"] else None


def _from_graph(
    graph: Data | GraphDataset, info: DatasetInfo, encoding: Mapping[str, Any] | None
) -> Data | GraphDataset:
    """Return a copy of a graph in memory, with features in the units of the tables that the model was trained on."""
    if (info.level == "graph") != isinstance(graph, GraphDataset):
        raise IncompatibleDataError(f"The model predicts {info.level}s, but the data is a {type(graph).__name__}.")
    data = copy.copy(graph)
    data.info = info
    add_degree_feature(data, encoding or {})
    columns = (encoding or {}).get("nodes") or []
    if not columns or getattr(graph, "encoding", None) is not None:
        return data
    if any(column["kind"] != "numeric" for column in columns) or data.x is None:
        names = ", ".join(column["column"] for column in columns)
        raise IncompatibleDataError(f"The model was trained on the columns {names}. Give data frames (nodes, edges).")
    if data.x.size(1) == sum(column["width"] for column in columns):  # other widths are reported by check_compatible
        data.x = torch.from_numpy(standardized(data.x.double().numpy(), columns))
    return data


def _load(config: Config, run_info: dict[str, Any], options: ReadOptions) -> LoadedData:
    """Load data with the encoding (categories, classes, scales) of the training data."""
    name, info = config.data.name, DatasetInfo(**run_info["info"])
    if name in CATALOG:
        return load(name, config.data.root, config.data.offline)
    _check_format(name, run_info["encoding"])
    data, report = read_path(Path(name).expanduser(), encoding=run_info["encoding"], options=options)
    report.raise_for_errors()
    log_warnings(report, Path(name))
    return _attach_info(data, info, name)


def _load_frames(frames: Any, run_info: dict[str, Any], options: ReadOptions) -> LoadedData:
    """Load data frames with the encoding (categories, classes, scales) of the training data."""
    if not are_frames(frames):
        raise TypeError(
            "new data must be a path, a data frame of molecules, a pair (nodes, edges) of data frames, a dictionary of "
            "the data frames nodes, edges and graphs, a torch_geometric Data or a GraphDataset, got "
            f"{type(frames).__name__}"
        )
    tables, encoding = to_tables(frames), run_info["encoding"]
    given = "smiles" if "molecules" in tables else "graph tables" if "graphs" in tables else "table"
    trained = (encoding or {}).get("kind")
    if trained in _FRAMES and trained != given:
        passed = "a single data frame was" if given == "smiles" else f"the data frames {', '.join(tables)} were"
        raise IncompatibleDataError(
            f"The model was trained on {_FORMATS[trained]}, so it needs {_FRAMES[trained]}, but {passed} passed."
        )
    data, report = read_frames(frames, encoding=encoding, options=options)
    report.raise_for_errors()
    report.log_warnings(name="")
    return _attach_info(data, DatasetInfo(**run_info["info"]), "the data")


def _attach_info(data: LoadedData, info: DatasetInfo, name: str) -> LoadedData:
    """Add the description of the training data to new data of the same task level."""
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
_FRAMES = {
    "smiles": "a single data frame of molecules",
    "table": "a pair (nodes, edges) of data frames",
    "graph tables": "a dictionary of the data frames graphs, nodes and edges",
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
        tgnn.training.new_data.IncompatibleDataError: X has 3 features, but the model is expecting 4 features ...
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
