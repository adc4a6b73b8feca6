"""Prepare a run: load the data, hold out the test labels, choose the device and build the model."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from tgnn.data.build.molecules import ATOM_CATEGORIES, BOND_CATEGORIES
from tgnn.data.dataset_info import LoadedData, content_hash, explain_missing_labels, infer_dataset_info
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.load import default_protocol, load
from tgnn.data.on_disk import DiskGraph
from tgnn.data.positional_encodings import with_positional_encoding, with_relative_positions
from tgnn.data.splits import Split, choose_split, labeled_mask
from tgnn.data.tables.schema import ReadOptions
from tgnn.data.transforms import scale_rows
from tgnn.data.validation.report import Finding, ValidationReport
from tgnn.data.validation.validate import inspect
from tgnn.models import DataShape, build_model, get_model
from tgnn.nn.feature_maps import CategoryEncoder
from tgnn.training.config import Config, ConfigError, DataConfig, TrainConfig
from tgnn.training.distributed.world import SINGLE_PROCESS, World
from tgnn.training.metrics import (
    Task,
    balanced_class_weight,
    check_metric,
    compute_log_prior_ratio,
    has_both_values,
    make_task,
)
from tgnn.training.scores import RANKING_METRICS
from tgnn.utils.memory import MemoryBudget


class HeldOutLabels:
    """Targets of the test set, which can be read once.

    Args:
        y: Targets of the test examples.
    """

    def __init__(self, y: Tensor) -> None:
        self._y: Tensor | None = y

    def read(self) -> Tensor:
        """Return the targets. A second call raises ``RuntimeError``."""
        if self._y is None:
            raise RuntimeError("The test labels have already been read. A run reads them once, after model selection.")
        y, self._y = self._y, None
        return y


@dataclass
class Prepared:
    """Data, split and task of a run, without the test labels.

    Args:
        data: One graph, in memory or on disk, or a data set of graphs. The targets of test examples in ``y`` are
            replaced by -1 or NaN.
        split: Training, validation and test indices.
        task: Loss, metric and predictions.
        shape: Shape of the data, for which the model is built.
        test_labels: Targets of the test examples, in the order of ``split.test``.
        data_hash: Hash of the data with all targets.
        sample_weight: Weight of each node or graph in the training loss. ``None``: equal weights.
    """

    data: LoadedData
    split: Split
    task: Task
    shape: DataShape
    test_labels: HeldOutLabels
    data_hash: str
    sample_weight: Tensor | None = None


# ---- data ------------------------------------------------------------------------------------------------------


def prepare(config: Config) -> Prepared:
    """Load the data of a run and split it by the run's seed."""
    options = config.data
    read = options.read_options
    data = load(options.name, options.root, options.offline, split=options.split, seed=config.train.seed, options=read)
    data = transform_features(data, options)
    prepared = hold_out_test_labels(data, getattr(data, "split", None), config.train.metric)
    add_model_inputs(prepared.data, config.model.name)
    apply_class_priors(prepared, config.train)
    return prepared


def prepare_without_test(config: Config) -> Prepared:
    """Prepare a run as :func:`prepare` does, and discard the test labels. Hyperparameter searches use it."""
    prepared = prepare(config)
    prepared.test_labels.read()
    return prepared


def transform_features(data: LoadedData, config: DataConfig) -> LoadedData:
    """Transform node and edge features as configured."""
    is_encoded = config.positional_encoding != "none" or config.relative_positions
    if is_encoded and not isinstance(data, GraphDataset):
        raise ValueError(
            "data.positional_encoding and data.relative_positions need a data set of many graphs, but "
            f"{data.info.name} is a single graph."
        )
    if isinstance(data, DiskGraph):
        data.features = config.features
        return data
    if config.features != "stored":
        if isinstance(data, GraphDataset) or data.x is None or not data.x.is_floating_point():
            raise ValueError(
                f"data.features={config.features} needs one graph with numeric node features. Use data.features=stored."
            )
        data.x = scale_rows(data.x, config.features)
    if not isinstance(data, GraphDataset):
        if not config.edge_features:
            data.edge_attr = None
        return data
    graphs = data if config.edge_features else data.without_edge_features()
    if config.relative_positions:
        graphs = with_relative_positions(graphs)
    if config.positional_encoding != "none":
        graphs = with_positional_encoding(graphs, config.positional_encoding, config.positional_channels)
    return graphs


def hold_out_test_labels(data: LoadedData, split: Split | None, metric: str | None = None) -> Prepared:
    """Check the training, validation and test sets, and remove the test labels from the data.

    ``metric`` replaces the metric of the data set.
    """
    y, name, metric = data.y, data.info.name, metric or data.info.metric
    if split is None or y is None:
        raise ValueError(f"{name} has no labels to train on. {explain_missing_labels(data)}")
    check_metric(metric, data.info.target)
    _check_sets(data, y, split, metric)
    data_hash = content_hash(data)
    task = make_task(data.info.target, metric, y[split.train])
    test_labels = HeldOutLabels(y[split.test].clone())
    visible = y.clone()
    visible[split.test] = float("nan") if visible.is_floating_point() else -1
    data.y = visible
    return Prepared(data, split, task, infer_shape(data, split.train), test_labels, data_hash)


def check_own_data(path: Path, options: ReadOptions) -> ValidationReport:
    """Validate user data, and report an error if a model cannot be trained on it.

    Args:
        path: File or folder of the data.
        options: Columns to predict, column of ids and task of tables or molecules.
    """
    data, report = inspect(path, options=options)
    if data is None:
        return report
    data.info = infer_dataset_info(data, path.resolve().name, f"files in {path}")
    try:
        is_labeled = data.y is not None and bool(labeled_mask(data.y).any())
        split = choose_split(data, default_protocol(data)) if is_labeled else None
        hold_out_test_labels(data, split)
    except ValueError as error:
        report.add(Finding("error", "not-trainable", str(error)))
    return report


_SET_NAMES = {"train": "training", "val": "validation", "test": "test"}
_NO_LABEL = "no label is 0 for some examples and 1 for others"


def _check_sets(data: LoadedData, y: Tensor, split: Split, metric: str) -> None:
    name = data.info.name
    for part, set_name in _SET_NAMES.items():
        if not len(getattr(split, part)):
            raise ValueError(
                f"The {set_name} set of {name} is empty (split {split.name!r}). Label more examples, or add a column "
                "`split` with the values train, val and test."
            )
    if data.info.target == "classification" and len(torch.unique(y[split.train])) < 2:
        raise ValueError(f"The training set of {name} has examples of one class only. Two or more classes are needed.")
    if isinstance(data, GraphDataset) and len(split.train) < 2:
        raise ValueError(f"The training set of {name} has one graph. Two or more graphs are needed.")
    if metric == "r2" and min(len(split.val), len(split.test)) < 2:
        raise ValueError(f"R2 needs two or more examples in the validation and test sets of {name}. Use mae or rmse.")
    if metric in RANKING_METRICS:
        for part in ("val", "test"):
            if not has_both_values(y[getattr(split, part)], data.info.target):
                what = "all examples are of one class" if data.info.target == "classification" else _NO_LABEL
                raise ValueError(
                    f"{metric.upper()} is not defined on the {_SET_NAMES[part]} set of {name}: {what}. Label more "
                    "examples, or use another split."
                )


def add_model_inputs(data: LoadedData, model: str) -> None:
    """Add the inputs that a model computes from the data once, such as eigenvectors of the Laplacian."""
    if isinstance(data, DiskGraph) and model != "tgnn":
        raise ValueError(
            f"{model} cannot be used with {data.info.name}, because the graph is stored on disk and only tgnn supports "
            "graphs on disk. If it fits into memory, convert it to a .npz file with `tgnn data convert`."
        )
    add = get_model(model).preprocess
    if add is not None:
        add(data)


def apply_class_priors(prepared: Prepared, config: TrainConfig) -> None:
    """Add the class weights and the prior correction of ``train.class_weight`` and ``train.prior_correction``."""
    y, split, task = prepared.data.y, prepared.split, prepared.task
    assert y is not None
    if config.class_weight == "balanced":
        if task.target == "regression":
            raise ConfigError(
                "train.class_weight=balanced needs a classification task, but this is a regression task. "
                "Use train.class_weight=none."
            )
        if config.prior_correction != "none":
            raise ConfigError(
                "train.class_weight=balanced and train.prior_correction=validation contradict each other. "
                "Add --set train.prior_correction=none."
            )
        weight = balanced_class_weight(y[split.train], task.target, prepared.shape.outputs)
        prepared.task = replace(task, class_weight=weight)
    if config.prior_correction == "none":
        return
    if task.target != "classification":
        raise ConfigError(
            "train.prior_correction=validation needs a classification task with one class per example, but this is a "
            f"{task.target} task. Use train.prior_correction=none."
        )
    if not len(split.val):
        raise ConfigError(
            "train.prior_correction=validation needs a validation set, and there is none. "
            "Use train.prior_correction=none."
        )
    ratio = compute_log_prior_ratio(y[split.train], y[split.val], prepared.shape.outputs)
    prepared.task = replace(task, log_prior_ratio=ratio)


def infer_shape(data: LoadedData, training_graphs: Tensor | None = None) -> DataShape:
    """Infer the sizes that a model is built for. Without training graphs, degrees are not counted.

    A model that is trained on a user's molecules embeds every atom and bond feature of OGB, so that it can predict
    molecules with atoms that are not in the training set.
    """
    pos = data.pos if isinstance(data, GraphDataset) else data.get("pos")
    atoms, bonds = (
        (ATOM_CATEGORIES, BOND_CATEGORIES) if training_graphs is not None and _are_molecules(data) else ((), ())
    )
    return DataShape(
        data.info.level,
        _feature_width(data.x, getattr(data, "num_categorical", 0), atoms),
        _feature_width(data.edge_attr, least=bonds),
        data.info.outputs,
        edge_weights=data.edge_weight is not None,
        positions=None if pos is None else pos.size(-1),
        nodes=None if isinstance(data, GraphDataset) else int(data.num_nodes),
        degrees=None if training_graphs is None else _degree_histogram(data, training_graphs),
    )


def _degree_histogram(data: LoadedData, training_graphs: Tensor) -> tuple[int, ...]:
    """Count the nodes with 0, 1, 2, ... incoming edges."""
    if isinstance(data, GraphDataset):
        in_degrees = data.degrees(training_graphs)
    elif isinstance(data, DiskGraph):
        in_degrees = data.in_edges.ptr.diff()
    elif data.get("edge_index") is None:
        return (int(data.num_nodes),)
    else:
        in_degrees = torch.bincount(data.edge_index[1], minlength=int(data.num_nodes))
    return tuple(torch.bincount(in_degrees).tolist())


def _are_molecules(data: LoadedData) -> bool:
    """Whether the data set contains a user's molecules, featurized as in OGB."""
    return isinstance(data, GraphDataset) and (data.encoding or {}).get("kind") == "smiles"


def zero_unseen_embeddings(model: torch.nn.Module, prepared: Prepared) -> None:
    """Set the embeddings of atom and bond features that no training molecule has to 0.

    They get no gradient, and random embeddings would add noise to the predictions of molecules that have them.
    """
    data = prepared.data
    if not isinstance(data, GraphDataset) or not _are_molecules(data):
        return
    is_train = torch.zeros(len(data), dtype=torch.bool)
    is_train[prepared.split.train] = True
    counts = {"x": data.num_nodes, "edge_attr": data.num_edges}
    for encoder in model.modules():
        if isinstance(encoder, CategoryEncoder):
            values = getattr(data, encoder.input_name)[is_train.repeat_interleave(counts[encoder.input_name])]
            categories = values[:, : len(encoder.sizes)].long().to(encoder.offset.device) + encoder.offset
            seen = torch.zeros(len(encoder.weight), dtype=torch.bool, device=encoder.offset.device)
            seen[categories.flatten()] = True
            with torch.no_grad():
                encoder.weight[~seen] = 0


def _feature_width(
    values: Tensor | None, num_categorical: int = 0, least: tuple[int, ...] = ()
) -> int | tuple[int, ...] | None:
    """Return the width of numeric features, or the number of categories of each column, 0 for a numeric one.

    ``least`` has minimum numbers of categories.
    """
    if values is None:
        return None
    values = values.unsqueeze(1) if values.dim() == 1 else values
    if values.is_floating_point() and not num_categorical:
        return values.size(1)
    categories = values[:, :num_categorical].long() if num_categorical else values
    sizes = (categories.max(0).values + 1).tolist() if values.numel() else [1] * categories.size(1)
    if len(least) == len(sizes):
        sizes = [max(pair) for pair in zip(sizes, least)]
    return (*sizes, *[0] * (values.size(1) - len(sizes)))


# ---- device and model ------------------------------------------------------------------------------------------


def find_device(name: str, world: World = SINGLE_PROCESS) -> torch.device:
    """Return the device of ``train.device``. Each process of a machine uses one GPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and world.size > 1:
        name = f"cuda:{world.local_rank}"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):
        per_process = " Each process needs its own GPU." if world.size > 1 else ""
        raise ConfigError(
            f"train.device is {name!r}, which this machine does not have.{per_process} Use auto, cpu, cuda, cuda:1 or "
            "mps, or see `tgnn doctor`."
        ) from None
    return device


def set_num_threads(config: Config, world: World = SINGLE_PROCESS) -> None:
    """Set the number of CPU threads. By default, the processes of one machine share its cores equally."""
    if config.train.threads is not None:
        torch.set_num_threads(config.train.threads)
    elif world.size > 1:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        torch.set_num_threads(max(1, cores // world.local_size))


def make_model(config: Config, shape: DataShape) -> torch.nn.Module:
    """Build the model of a run. The run's seed initializes its weights."""
    torch.manual_seed(config.train.seed)
    model = config.model
    with MemoryBudget(f"The model {model.name} with {model.hidden_channels:,} hidden channels"):
        return build_model(model.name, shape, model.hidden_channels, model.num_layers, model.dropout, model.arguments)


_PLACEHOLDERS = {
    "node": DataShape("node", 4, None, 2, positions=2, nodes=4, degrees=(1, 1, 1, 1)),
    "graph": DataShape("graph", (4,), None, 2, positions=2, degrees=(1, 1, 1, 1)),
}
"""A small shape of each task level. Whether hyperparameters are valid hardly depends on the data."""


def check_model(config: Config, level: str) -> None:
    """Build a model for made-up data sizes, so that invalid hyperparameters raise before data is loaded."""
    make_model(config, _PLACEHOLDERS[level])
