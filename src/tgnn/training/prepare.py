"""From a data set to what the loop takes. Test labels are sealed: nobody can see them before the end."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch_geometric.data import Data

from tgnn.baselines import find_model
from tgnn.baselines.shape import Shape
from tgnn.data.about import content_hash
from tgnn.data.catalog.entry import Loaded
from tgnn.data.disk import DiskGraph
from tgnn.data.formats.packed import PackedGraphs
from tgnn.data.load import load
from tgnn.data.scale import scale_rows
from tgnn.data.splits import Split
from tgnn.training.config import Config, DataConfig, WrongConfig
from tgnn.training.task import Task, for_target, has_roc_auc, shift_of_shares


class SealedLabels:
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

    data: Loaded
    split: Split
    task: Task
    shape: Shape
    sealed: SealedLabels
    data_hash: str


def prepare(config: Config) -> Prepared:
    """Loads the data of a run, with its split drawn by the run's seed."""
    settings = config.data
    data = load(settings.name, settings.root, settings.offline, split=settings.split, seed=config.train.seed)
    prepared = seal(with_features(data, settings), getattr(data, "split", None))
    complete(prepared.data, config.model.name)
    expect_shares(prepared, config.train.shares)
    return prepared


def prepare_blind(config: Config) -> Prepared:
    """As :func:`prepare`, but the test labels are thrown away: for code that chooses."""
    prepared = prepare(config)
    prepared.sealed.open()
    return prepared


def expect_shares(prepared: Prepared, shares: str) -> None:
    """Makes predictions expect the shares of classes of the validation part, where that is asked for."""
    y, split = prepared.data.y, prepared.split
    if shares == "learned":
        return
    assert y is not None
    if prepared.task.target != "classes":
        what = prepared.data.about.name or "what is to be told"
        raise WrongConfig(f"train.shares is validation: {what} has no classes; leave it out")
    if not len(split.val):
        raise WrongConfig("train.shares is validation, but no examples are held out for validation; leave it out")
    prepared.task = replace(prepared.task, shift=shift_of_shares(y[split.train], y[split.val], prepared.shape.outputs))


def complete(data: Loaded, model: str) -> None:
    """Adds what the model of that name reads beyond the files."""
    if isinstance(data, DiskGraph) and model != "tgnn":
        raise ValueError(
            f"{data.about.name} is on disk, where only tgnn gives exact outputs of all nodes; `tgnn data convert` "
            f"makes a .npz of it, which {model} takes where memory allows"
        )
    add = find_model(model).complete
    if add is not None:
        add(data)


def with_features(data: Loaded, settings: DataConfig) -> Loaded:
    """Features as a run wants them."""
    if isinstance(data, DiskGraph):
        data.features = settings.features
        return data
    if not settings.edge_features:
        data = data.without_edge_features() if isinstance(data, PackedGraphs) else _without_edge_attr(data)
    if settings.features != "stored":
        if isinstance(data, PackedGraphs) or data.x is None or not data.x.is_floating_point():
            raise ValueError(f"data.features={settings.features} is for one graph with numeric features")
        data.x = scale_rows(data.x, settings.features)
    return data


def seal(data: Loaded, split: Split | None) -> Prepared:
    """Takes the test labels out of the data."""
    y = data.y
    if split is None or y is None:
        raise ValueError(f"{data.about.name} has no labels to learn from: give its nodes or graphs a column `label`")
    for part in ("train", "val", "test"):
        if not len(getattr(split, part)):
            raise ValueError(
                f"the split {split.name!r} of {data.about.name} has no {part} examples: it needs more labelled ones, "
                "or a column `split` that says train, val and test"
            )
    if data.about.target == "classes" and len(y[split.train].unique()) < 2:
        raise ValueError(
            f"the examples of {data.about.name} to learn from are all of one class: two or more are needed; "
            "give it labels of another"
        )
    if isinstance(data, PackedGraphs) and len(split.train) < 2:
        raise ValueError(f"{data.about.name} has one graph to learn from: two or more are needed")
    if data.about.metric == "roc-auc":
        for part in ("val", "test"):
            if not has_roc_auc(y[getattr(split, part)]):
                raise ValueError(
                    f"{data.about.name} cannot be judged by ROC-AUC on its {part} part: no label is 0 for some "
                    "examples there and 1 for others; it needs more labelled ones, or another split"
                )
    whole = content_hash(data)
    task = for_target(data.about.target, data.about.metric, y[split.train])
    sealed = SealedLabels(y[split.test].clone())
    blank = y.clone()
    blank[split.test] = float("nan") if blank.is_floating_point() else -1
    data.y = blank
    return Prepared(data, split, task, shape_of(data, split.train), sealed, whole)


def shape_of(data: Loaded, learned: Tensor | None = None) -> Shape:
    """Sizes that a model needs: widths of numbers, or how many categories each column of integers has.

    Args:
        data: One graph or many.
        learned: The graphs to learn from, whose degrees a model may want to know.
    """
    pos = data.pos if isinstance(data, PackedGraphs) else data.get("pos")
    return Shape(
        data.about.level,
        _width(data.x),
        _width(data.edge_attr),
        data.about.outputs,
        edge_weights=data.edge_weight is not None,
        positions=None if pos is None else pos.size(-1),
        nodes=None if isinstance(data, PackedGraphs) else int(data.num_nodes),
        degrees=None if learned is None else _degrees(data, learned),
    )


def _degrees(data: Loaded, learned: Tensor) -> tuple[int, ...]:
    """How many nodes have 0, 1, 2, ... edges into them."""
    if isinstance(data, PackedGraphs):
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
