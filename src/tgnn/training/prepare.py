"""From a data set to what the loop takes. Test labels are sealed: nobody can see them before the end."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch_geometric.data import Data

from tgnn.data.catalog.entry import LoadedData
from tgnn.data.dataset_info import content_hash
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.load import load
from tgnn.data.on_disk import DiskGraph
from tgnn.data.splits import Split
from tgnn.data.transforms import scale_rows
from tgnn.models import get_model
from tgnn.models.data_shape import DataShape
from tgnn.training.config import Config, ConfigError, DataConfig
from tgnn.training.metrics import Task, for_target, has_roc_auc, log_prior_ratio


class HeldOutLabels:
    """The targets of the test part, to be opened once.

    Args:
        y: Targets of the test examples.
    """

    def __init__(self, y: Tensor) -> None:
        self._y: Tensor | None = y

    def open(self) -> Tensor:
        """The targets; a second call is an error."""
        if self._y is None:
            raise RuntimeError("the test labels have been read already: a result is read once")
        y, self._y = self._y, None
        return y


@dataclass
class Prepared:
    """Data ready to train.

    Args:
        data: One graph, in memory or on disk, or many; its ``y`` says nothing of test examples.
        split: Which examples are what.
        task: What to predict.
        shape: For making a model.
        sealed: Targets of the test examples, in the order of ``split.test``.
        data_hash: Of the data with all its targets.
    """

    data: LoadedData
    split: Split
    task: Task
    shape: DataShape
    sealed: HeldOutLabels
    data_hash: str


def prepare(config: Config) -> Prepared:
    """Loads the data of a run, with its split drawn by the run's seed."""
    settings = config.data
    data = load(settings.name, settings.root, settings.offline, split=settings.split, seed=config.train.seed)
    prepared = seal(transform_features(data, settings), getattr(data, "split", None))
    complete(prepared.data, config.model.name)
    apply_prior_correction(prepared, config.train.prior_correction)
    return prepared


def prepare_without_test(config: Config) -> Prepared:
    """As :func:`prepare`, but the test labels are thrown away: for code that chooses."""
    prepared = prepare(config)
    prepared.sealed.open()
    return prepared


def apply_prior_correction(prepared: Prepared, shares: str) -> None:
    """Makes predictions expect the shares of classes of the validation part, where that is asked for."""
    y, split = prepared.data.y, prepared.split
    if shares == "none":
        return
    assert y is not None
    if prepared.task.target != "classes":
        what = prepared.data.info.name or "what is to be told"
        raise ConfigError(f"train.prior_correction is validation: {what} has no classes; leave it out")
    if not len(split.val):
        raise ConfigError(
            "train.prior_correction is validation, but no examples are held out for validation; leave it out"
        )
    prepared.task = replace(prepared.task, shift=log_prior_ratio(y[split.train], y[split.val], prepared.shape.outputs))


def complete(data: LoadedData, model: str) -> None:
    """Adds what the model of that name reads beyond the files."""
    if isinstance(data, DiskGraph) and model != "tgnn":
        raise ValueError(
            f"{data.info.name} is on disk, where only tgnn gives exact outputs of all nodes; `tgnn data convert` "
            f"makes a .npz of it, which {model} takes where memory allows"
        )
    add = get_model(model).preprocess
    if add is not None:
        add(data)


def transform_features(data: LoadedData, settings: DataConfig) -> LoadedData:
    """Features as a run wants them."""
    if isinstance(data, DiskGraph):
        data.features = settings.features
        return data
    if not settings.edge_features:
        data = data.without_edge_features() if isinstance(data, GraphDataset) else _without_edge_attr(data)
    if settings.features != "stored":
        if isinstance(data, GraphDataset) or data.x is None or not data.x.is_floating_point():
            raise ValueError(f"data.features={settings.features} is for one graph with numeric features")
        data.x = scale_rows(data.x, settings.features)
    return data


def seal(data: LoadedData, split: Split | None) -> Prepared:
    """Takes the test labels out of the data."""
    y = data.y
    if split is None or y is None:
        raise ValueError(f"{data.info.name} has no labels to learn from: give its nodes or graphs a column `label`")
    for part in ("train", "val", "test"):
        if not len(getattr(split, part)):
            raise ValueError(
                f"the split {split.name!r} of {data.info.name} has no {part} examples: it needs more labelled ones, "
                "or a column `split` that says train, val and test"
            )
    if data.info.target == "classes" and len(y[split.train].unique()) < 2:
        raise ValueError(
            f"the examples of {data.info.name} to learn from are all of one class: two or more are needed; "
            "give it labels of another"
        )
    if isinstance(data, GraphDataset) and len(split.train) < 2:
        raise ValueError(f"{data.info.name} has one graph to learn from: two or more are needed")
    if data.info.metric == "roc-auc":
        for part in ("val", "test"):
            if not has_roc_auc(y[getattr(split, part)]):
                raise ValueError(
                    f"{data.info.name} cannot be judged by ROC-AUC on its {part} part: no label is 0 for some "
                    "examples there and 1 for others; it needs more labelled ones, or another split"
                )
    whole = content_hash(data)
    task = for_target(data.info.target, data.info.metric, y[split.train])
    sealed = HeldOutLabels(y[split.test].clone())
    blank = y.clone()
    blank[split.test] = float("nan") if blank.is_floating_point() else -1
    data.y = blank
    return Prepared(data, split, task, infer_shape(data, split.train), sealed, whole)


def infer_shape(data: LoadedData, learned: Tensor | None = None) -> DataShape:
    """Sizes that a model needs: widths of numbers, or how many categories each column of integers has.

    Args:
        data: One graph or many.
        learned: The graphs to learn from, whose degrees a model may want to know.
    """
    pos = data.pos if isinstance(data, GraphDataset) else data.get("pos")
    return DataShape(
        data.info.level,
        _width(data.x),
        _width(data.edge_attr),
        data.info.outputs,
        edge_weights=data.edge_weight is not None,
        positions=None if pos is None else pos.size(-1),
        nodes=None if isinstance(data, GraphDataset) else int(data.num_nodes),
        degrees=None if learned is None else _degrees(data, learned),
    )


def _degrees(data: LoadedData, learned: Tensor) -> tuple[int, ...]:
    """How many nodes have 0, 1, 2, ... edges into them."""
    if isinstance(data, GraphDataset):
        into = data.degrees(learned)
    elif isinstance(data, DiskGraph):
        into = data.in_edges.ptr.diff()
    elif data.get("edge_index") is None:
        return (int(data.num_nodes),)
    else:
        into = torch.bincount(data.edge_index[1], minlength=int(data.num_nodes))
    return tuple(torch.bincount(into).tolist())


def _width(values: Tensor | None) -> int | tuple[int, ...] | None:
    if values is None:
        return None
    values = values.unsqueeze(1) if values.dim() == 1 else values
    if values.is_floating_point():
        return values.size(1)
    return tuple((values.max(0).values + 1).tolist()) if values.numel() else (1,) * values.size(1)


def _without_edge_attr(data: Data) -> Data:
    data.edge_attr = None
    return data
