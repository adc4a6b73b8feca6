"""Base class of all estimators: parameters, ``fit``, model outputs, saving and loading."""

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
from tgnn.estimators.from_networkx import NetworkXAttributes
from tgnn.estimators.parameters import config_from_parameters
from tgnn.estimators.saving import read_estimator, write_estimator
from tgnn.estimators.training_set import (
    TrainingSet,
    prepare_features,
    prepare_training,
)
from tgnn.models import get_model
from tgnn.models.data_shape import DataShape
from tgnn.training import loop
from tgnn.training.compatibility import check_compatible, num_features
from tgnn.training.config import Config
from tgnn.training.inference import infer
from tgnn.training.loaders import make_inference_batches
from tgnn.training.metrics import Task
from tgnn.training.prepare import (
    add_model_inputs,
    apply_prior_correction,
    find_device,
    infer_shape,
    make_model,
    set_num_threads,
)
from tgnn.utils.suggest import closest_match

Self = TypeVar("Self", bound="Estimator")


class Estimator(BaseEstimator, ABC):
    """Base class of all estimators. Subclasses define the examples: nodes or graphs.

    Parameters are stored in ``__init__`` and validated in :meth:`fit`.

    Args:
        model: Name of the model, see ``tgnn models``.
        hidden: Number of hidden channels. ``None`` uses the default recipe of the model, here and for the parameters
            below.
        layers: Number of layers.
        rank: CP rank of the product branch. 0 removes the branch.
        dropout: Dropout probability of hidden channels.
        lr: Learning rate of the optimizer. That of the product branch is ``options={"optimizer.cp_lr": ...}``.
        weight_decay: Weight decay of the optimizer.
        epochs: Maximum number of epochs.
        patience: Stop after this many epochs without improvement on the validation set.
        batch_size: Number of graphs or nodes in a mini-batch.
        validation_fraction: Fraction of the labeled examples to hold out for validation. 0 holds out none and selects
            the epoch on the training set.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"mps"``.
        random_state: Random seed of initialization, dropout, shuffling and hold-out. ``None`` draws a new one.
        verbose: 0 prints nothing, 1 prints about ten lines during training, 2 prints a line for each epoch.
        options: Any other option of ``tgnn train --set``, as ``{"section.key": value}``.
        x_attribute: Node attribute (or list of attributes) of NetworkX graphs with the features.
        y_attribute: Node or graph attribute of NetworkX graphs with the target.
        weight_attribute: Edge attribute of NetworkX graphs with the edge weight. ``None`` ignores weights.

    Attributes:
        classes_: Class labels, sorted. Classifiers only.
        n_features_in_: Number of node features seen in :meth:`fit`.
        model_: Trained ``torch.nn.Module``, with the weights of the best epoch.
        history_: Losses and metrics of each epoch, as a list of dictionaries.
        n_iter_: Number of epochs that were run.
        best_epoch_: Epoch with the best validation score, from 0.
        config_: Resolved training configuration.
        shape_: Number and type of the features and outputs.
        task_: Target type, metric and prior correction.
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

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Set the signature to that of ``__init__``, because ``__new__`` takes any arguments."""
        super().__init_subclass__(**kwargs)
        signature = inspect.signature(cls.__init__)
        cls.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])

    def __new__(cls: type[Self], *args: Any, **parameters: Any) -> Self:
        """Raise a ``TypeError`` with the closest parameter name for an unknown parameter."""
        known = cls._get_param_names()
        for name in parameters:
            if name not in known:
                match = closest_match(name, known)
                hint = f"did you mean {match}?" if match else f"its parameters are {', '.join(known)}"
                raise TypeError(f"{cls.__name__} has no parameter {name!r}: {hint}")
        instance: Self = super().__new__(cls)
        return instance

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

    # ---- implemented by subclasses ---------------------------------------------------------------------------

    @abstractmethod
    def _training_set(self, X: Any, y: Any, validation: Any) -> TrainingSet:
        """Return the labeled nodes or graphs."""

    @abstractmethod
    def _data(self, X: Any) -> tuple[Data | GraphDataset, np.ndarray]:
        """Return the graph or graphs to predict, and the indices of the requested outputs."""

    @abstractmethod
    def _encode(self, y: np.ndarray) -> tuple[Tensor, np.ndarray | None]:
        """Return the targets as a tensor, and the classes if they are class indices (otherwise ``None``)."""

    @abstractmethod
    def _known_targets(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return a mask of the examples that have a target, and their targets."""

    # ---- training and inference ------------------------------------------------------------------------------

    def fit(self: Self, X: Any, y: Any = None, validation: Any = None) -> Self:
        """Train the model and keep the weights of the epoch with the best validation score.

        Args:
            X: Nodes or graphs: see the class.
            y: Targets, one for each example. ``None`` uses those of ``X``.
            validation: Boolean mask of the examples in the validation set. ``None`` uses the ``val_mask`` of ``X``, or
                draws ``validation_fraction`` of the examples.
        """
        config = config_from_parameters(self.get_params(deep=False), self._level)
        training_set = self._training_set(X, y, validation)
        targets, classes = self._encode(training_set.y)
        prepared = prepare_training(
            training_set, targets, classes, self.validation_fraction, config.train.seed, config.data
        )
        apply_prior_correction(prepared, config.train.prior_correction)
        add_model_inputs(prepared.data, config.model.name)
        device = find_device(config.train.device)
        history: list[dict[str, Any]] = []

        def on_epoch(epoch: loop.Epoch) -> None:
            history.append(dict(epoch.record))
            self._print_epoch(epoch, config.train.epochs)

        with _isolated(config, device):
            model = make_model(config, prepared.shape).to(device)
            best, progress = loop.fit(model, prepared, config, on_epoch=on_epoch)
        model.load_state_dict(best)
        self.model_, self.history_ = model.eval(), history
        self.n_iter_, self.best_epoch_ = progress.epoch, progress.best_epoch
        self.config_, self.shape_, self.task_ = config, prepared.shape, prepared.task
        self.n_features_in_ = num_features(prepared.shape.features)
        if classes is not None:
            self.classes_ = classes
        return self

    def _outputs(self, X: Any) -> Tensor:
        """Compute the outputs of the model for each example of ``X``."""
        check_is_fitted(self, "model_")
        data, rows = self._data(X)
        config, device = self.config_, find_device(self.device or self.config_.train.device)
        data = prepare_features(data, self.task_.target, self.shape_.outputs, config.data)
        self._check_shape(infer_shape(data))
        add_model_inputs(data, config.model.name)
        batches = make_inference_batches(data, None, config.train.batch_size, device)
        outputs = infer(self.model_.to(device), batches, config.train.precision, device)
        return outputs.cpu()[torch.from_numpy(rows)]

    def _print_epoch(self, epoch: loop.Epoch, max_epochs: int) -> None:
        interval = 1 if self.verbose > 1 else max(1, max_epochs // 10)
        if self.verbose and (epoch.number % interval == 0 or epoch.number == max_epochs - 1):
            print(
                f"epoch {epoch.number}: loss {epoch.loss:.4f}, validation {epoch.score:.4f}, "
                f"best {epoch.best_score:.4f} at epoch {epoch.best_epoch}"
            )

    def _attribute_names(self) -> NetworkXAttributes:
        needs_x = self._level == "graph" or "node features" in get_model(self.model).needs
        return NetworkXAttributes(self.x_attribute, self.y_attribute, self.weight_attribute, self._level, needs_x)

    def _check_shape(self, shape: DataShape) -> None:
        """Check that ``X`` has the features and edge weights that the fitted model reads."""
        check_compatible(self.config_.model, self.shape_, shape, "X", type(self).__name__)

    # ---- saving and loading ----------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str]) -> None:
        """Save the fitted estimator to one safetensors file. The parameter ``graph`` is not saved.

        Args:
            path: The file to write.
        """
        check_is_fitted(self, "model_")
        write_estimator(self, Path(path))

    @classmethod
    def load(cls: type[Self], path: str | PathLike[str]) -> Self:
        """Load an estimator that :meth:`save` has written. Nothing is unpickled.

        Args:
            path: The file to read.
        """
        return read_estimator(cls, Path(path))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags


@contextlib.contextmanager
def _isolated(config: Config, device: torch.device) -> Iterator[None]:
    """Restore torch's random state and number of threads after training."""
    threads = torch.get_num_threads()
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        set_num_threads(config)
        try:
            yield
        finally:
            if config.train.threads is not None:
                torch.set_num_threads(threads)
