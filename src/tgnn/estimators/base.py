"""What all estimators share: parameters, ``fit`` by the training loop, outputs, files."""

from __future__ import annotations

import contextlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch_geometric.data import Data

from tgnn.data.graph_dataset import GraphDataset
from tgnn.estimators.examples import Examples, columns, count, prepare_examples, ready
from tgnn.estimators.from_networkx import Attributes
from tgnn.estimators.options import make_options
from tgnn.estimators.saving import read_estimator, write_estimator
from tgnn.models import get_model
from tgnn.models.data_shape import DataShape
from tgnn.training import loop
from tgnn.training.config import Config
from tgnn.training.loaders import make_loader
from tgnn.training.metrics import Task
from tgnn.training.model_check import lacks
from tgnn.training.prepare import apply_prior_correction, complete, infer_shape
from tgnn.training.train import find_device, make_model, set_threads
from tgnn.utils.suggest import closest_match

Self = TypeVar("Self", bound="Estimator")


class Estimator(BaseEstimator, ABC):
    """A model that is trained with ``fit``; what it learns of is said by subclasses.

    Args:
        model: A name of ``tgnn models``.
        hidden: Width of hidden layers. ``None``, here and below: as the default recipe of the model says.
        layers: Number of layers.
        rank: Rank of the products.
        dropout: Share of hidden entries dropped in training.
        lr: Step size (of the product branch: ``options={"optimizer.cp_lr": ...}``).
        weight_decay: Decay of weights.
        epochs: At most so many.
        patience: Stop after so many epochs without a better validation score.
        batch_size: Graphs in a batch; of nodes, with ``options={"train.num_neighbors": ...}``.
        validation_fraction: Share of the labelled examples that chooses the epoch; 0: none is held out.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"mps"``.
        random_state: Of weights, dropout, batches and the hold-out.
        verbose: 1: some lines while training; 2: one for each epoch.
        options: Any other setting, as ``{"section.key": value}`` of ``tgnn train --set``.
        x_attribute: Where NetworkX nodes have their features: one attribute, or several.
        y_attribute: Where they, or the graph, have the target.
        weight_attribute: Where edges have a weight; ``None``: all are the same.
    """

    _level: ClassVar[str]
    __signature__: ClassVar[inspect.Signature]

    classes_: np.ndarray
    n_features_in_: int
    model_: torch.nn.Module
    history_: list[dict[str, Any]]
    n_iter_: int
    best_epoch_: int
    config_: Config
    shape_: DataShape
    task_: Task

    def __init_subclass__(cls, **more: Any) -> None:
        """The signature is that of ``__init__``, whatever ``__new__`` takes."""
        super().__init_subclass__(**more)
        signature = inspect.signature(cls.__init__)
        cls.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])

    def __new__(cls: type[Self], *args: Any, **parameters: Any) -> Self:
        """Names the class that the user knows, and the nearest parameter, where one is not known."""
        known = cls._get_param_names()
        for name in parameters:
            if name not in known:
                near = closest_match(name, known)
                hint = f"did you mean {near}?" if near else f"it has {', '.join(known)}"
                raise TypeError(f"{cls.__name__} has no parameter {name!r}; {hint}")
        made: Self = super().__new__(cls)
        return made

    def __init__(
        self,
        *,
        model: str = "tgnn",
        hidden: int | None = None,
        layers: int | None = None,
        rank: int | None = None,
        dropout: float | None = None,
        lr: float | None = None,
        weight_decay: float | None = None,
        epochs: int | None = None,
        patience: int | None = None,
        batch_size: int | None = None,
        validation_fraction: float = 0.1,
        device: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
        options: Mapping[str, Any] | None = None,
        x_attribute: Any = "x",
        y_attribute: str = "y",
        weight_attribute: str | None = None,
    ) -> None:
        self.model = model
        self.hidden = hidden
        self.layers = layers
        self.rank = rank
        self.dropout = dropout
        self.lr = lr
        self.weight_decay = weight_decay
        self.epochs = epochs
        self.patience = patience
        self.batch_size = batch_size
        self.validation_fraction = validation_fraction
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
        self.options = options
        self.x_attribute = x_attribute
        self.y_attribute = y_attribute
        self.weight_attribute = weight_attribute

    # ---- what subclasses say ---------------------------------------------------------------------------------

    @abstractmethod
    def _examples(self, X: Any, y: Any, validation: Any) -> Examples:
        """What to learn from: nodes or graphs."""

    @abstractmethod
    def _data(self, X: Any) -> tuple[Data | GraphDataset, np.ndarray]:
        """What to predict for, and which rows of the model's output are asked for."""

    @abstractmethod
    def _encode(self, y: np.ndarray) -> tuple[Tensor, np.ndarray | None]:
        """Targets as the model takes them, and the classes that they are numbers of; ``None``: they are numbers."""

    @abstractmethod
    def _truth(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Which examples have a target to be scored by, and these targets."""

    # ---- the work --------------------------------------------------------------------------------------------

    def fit(self: Self, X: Any, y: Any = None, validation: Any = None) -> Self:
        """Learns, and keeps the weights of the epoch that was best on what was held out.

        Args:
            X: What to learn from, as the class says.
            y: Targets, one for each example; ``None``: those that come with ``X``.
            validation: Boolean, one for each example: those that choose the epoch; ``None``: a share is drawn.
        """
        config = make_options(self.get_params(deep=False), self._level)
        examples = self._examples(X, y, validation)
        codes, classes = self._encode(examples.y)
        prepared = prepare_examples(examples, codes, classes, self.validation_fraction, config.train.seed, config.data)
        apply_prior_correction(prepared, config.train.prior_correction)
        complete(prepared.data, config.model.name)
        device = find_device(config.train.device)
        history: list[dict[str, Any]] = []

        def tell(epoch: loop.Epoch) -> None:
            history.append(dict(epoch.line))
            self._say(epoch, config.train.epochs)

        with _apart(config, device):
            model = make_model(config, prepared.shape).to(device)
            best, progress = loop.fit(model, prepared, config, None, tell=tell)
        model.load_state_dict(best)
        self.model_, self.history_ = model.eval(), history
        self.n_iter_, self.best_epoch_ = progress.epoch, progress.best_epoch
        self.config_, self.shape_, self.task_ = config, prepared.shape, prepared.task
        self.n_features_in_ = columns(prepared.shape.features)
        if classes is not None:
            self.classes_ = classes
        return self

    def _outputs(self, X: Any) -> Tensor:
        """What the model says of each example."""
        check_is_fitted(self, "model_")
        data, rows = self._data(X)
        config, device = self.config_, find_device(self.device or self.config_.train.device)
        data = ready(data, self.task_.target, self.shape_.outputs, config.data)
        self._check_shape(infer_shape(data))
        complete(data, config.model.name)
        data.y = torch.zeros(count(data))  # batches carry targets; nobody looks at these
        batches = make_loader(data, torch.arange(count(data)), config.train, device, shuffle=False)
        precision = loop.Precision(config.train.precision, device)
        outputs = loop.infer_outputs(self.model_.to(device), batches, precision)
        return outputs.cpu()[torch.from_numpy(rows)]

    def _say(self, epoch: loop.Epoch, epochs: int) -> None:
        often = 1 if self.verbose > 1 else max(1, epochs // 10)
        if self.verbose and (epoch.number % often == 0 or epoch.number == epochs - 1):
            print(
                f"epoch {epoch.number}: loss {epoch.loss:.4f}, validation {epoch.score:.4f}, "
                f"best {epoch.best:.4f} at epoch {epoch.best_epoch}"
            )

    def _names(self) -> Attributes:
        needs_x = self._level == "graph" or "node features" in get_model(self.model).needs
        return Attributes(self.x_attribute, self.y_attribute, self.weight_attribute, self._level, needs_x)

    def _check_shape(self, found: DataShape) -> None:
        """Whether data is as wide as what was learned from, and has all that the model reads."""
        name = type(self).__name__
        for what, wanted, given in (
            ("features", self.shape_.features, found.features),
            ("edge features", self.shape_.edge_features, found.edge_features),
        ):
            if columns(wanted) != columns(given):
                raise ValueError(
                    f"X has {columns(given)} {what}, but {name} is expecting {columns(wanted)} {what} as input."
                )
            if isinstance(wanted, tuple) != isinstance(given, tuple):
                kinds = ("categories (integers of torch)", "numbers")
                was, now = kinds if isinstance(wanted, tuple) else kinds[::-1]
                raise ValueError(f"the {what} of X are {now}, but {name} has learned from {was}")
        lacking = lacks(self.config_.model, self.shape_, found)
        if lacking is not None:
            raise ValueError(f"{name} has learned from {lacking}, and X has none such")
        if lacks(self.config_.model, found, self.shape_) == "edge weights":
            raise ValueError(
                f"{name} has learned from edges without weights, and X has some: leave them out, or fit with them"
            )

    # ---- files -----------------------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str]) -> None:
        """Writes what was learned to one file: safetensors, with all else in it as JSON. A graph is not written.

        Args:
            path: Of the file.
        """
        check_is_fitted(self, "model_")
        write_estimator(self, Path(path))

    @classmethod
    def load(cls: type[Self], path: str | PathLike[str]) -> Self:
        """Reads what ``save`` has written; nothing is unpickled.

        Args:
            path: Of the file.
        """
        return read_estimator(cls, Path(path))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags


@contextlib.contextmanager
def _apart(config: Config, device: torch.device) -> Iterator[None]:
    """Seeds and threads of a training stay its own: the caller's are put back."""
    threads = torch.get_num_threads()
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        set_threads(config)
        try:
            yield
        finally:
            if config.train.threads is not None:
                torch.set_num_threads(threads)
