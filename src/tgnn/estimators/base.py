"""Base classes of the estimators: parameters, ``fit``, ``predict``, ``score``, saving and loading."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_classifier
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch_geometric.data import Data

from tgnn.data.dataset_info import DatasetInfo
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.splits import Split
from tgnn.data.task_types import DEFAULT_METRICS, TaskTypeName
from tgnn.estimators.ensemble import Ensemble, train_members
from tgnn.estimators.inputs import NetworkXAttributes, drop_unit_weights
from tgnn.estimators.parameters import config_from_parameters
from tgnn.estimators.preprocessing import Preprocessor
from tgnn.estimators.saving import read_estimator, write_estimator
from tgnn.estimators.targets import (
    check_labels,
    check_mask,
    check_numbers,
    check_sample_weight,
    class_weight_list,
    draw_holdout,
    is_missing,
    to_column,
)
from tgnn.models import get_model
from tgnn.training.calibration import calibrate, check_calibration
from tgnn.training.config import Config
from tgnn.training.loaders import make_inference_batches
from tgnn.training.loop import Epoch, infer
from tgnn.training.metrics import check_metric, make_task
from tgnn.training.new_data import check_compatible, num_features
from tgnn.training.prepare import (
    HeldOutLabels,
    Prepared,
    add_model_inputs,
    apply_class_priors,
    find_device,
    infer_shape,
    transform_features,
)

if TYPE_CHECKING:
    from typing_extensions import Self  # typing has it from Python 3.11 on


@dataclass(kw_only=True, eq=False, repr=False)
class Estimator(BaseEstimator, ABC):
    """Base class of all estimators. Subclasses define the examples, nodes or graphs, and the targets.

    The fields are the parameters. They are only stored in ``__init__``, as in scikit-learn, and validated in
    :meth:`fit`.
    """

    _level: ClassVar[str]
    _target_type: ClassVar[TaskTypeName]

    model: str = "tgnn"
    hidden: int | None = None
    layers: int | None = None
    rank: int | None = None
    dropout: float | None = None
    lr: float | None = None
    weight_decay: float | None = None
    epochs: int | None = None
    patience: int | None = None
    batch_size: int | None = None
    metric: str | None = None
    n_estimators: int = 1
    validation_fraction: float = 0.1
    device: str | None = None
    random_state: Any = None
    verbose: int = 0
    options: Mapping[str, Any] | None = None
    x_attribute: Any = "x"
    y_attribute: str = "y"
    weight_attribute: str | None = None
    standardize: bool = True
    undirected: bool = True

    # ---- implemented by subclasses ---------------------------------------------------------------------------

    @abstractmethod
    def _examples(self, X: Any, preprocessor: Preprocessor) -> tuple[Data | GraphDataset, np.ndarray, Any]:
        """Return the graph or graphs, the indices of the examples, and the targets stored in the graphs.

        The graphs are a copy that may be changed. The targets are as given by the user, ``None`` if there are none.
        """

    @abstractmethod
    def _encode(self, y: np.ndarray) -> tuple[Tensor, np.ndarray | None]:
        """Return the targets as a tensor, and the classes if they are class indices (otherwise ``None``)."""

    @abstractmethod
    def _decode(self, outputs: Tensor) -> np.ndarray:
        """Return the predictions for the outputs of the model."""

    # ---- training and inference ------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, validation: Any = None, sample_weight: Any = None) -> Self:
        """Train the model and keep the weights of the epoch with the best validation score.

        Args:
            X: Nodes or graphs: see the class.
            y: Targets, one for each example. ``None`` uses those of ``X``.
            validation: Boolean mask of the examples in the validation set. ``None`` uses the ``val_mask`` of ``X``, or
                draws ``validation_fraction`` of the examples.
            sample_weight: Weight of each example in the training loss. ``None``: equal weights.
        """
        config = config_from_parameters(self.get_params(deep=False), self._level)
        preprocessor = Preprocessor(None, self.standardize, self._needs_features())
        data, indices, stored_targets = self._examples(X, preprocessor)
        if len(np.unique(indices)) < len(indices):
            raise ValueError("X contains a node twice: each node index must be unique")
        y, used = self._targets(y, stored_targets, indices)
        used, validation_mask = self._apply_masks(X, used, validation)
        targets, classes = self._encode(y[used])
        if validation_mask is None:
            strata = np.zeros(len(targets)) if classes is None else targets.numpy()
            validation_mask = draw_holdout(strata, self.validation_fraction, config.train.seed)
        prepared = self._prepare(config, drop_unit_weights(data), indices[used], targets, validation_mask)
        if classes is not None and isinstance(weights := getattr(self, "class_weight", None), Mapping):
            prepared.task = replace(prepared.task, class_weight=class_weight_list(weights, classes))
        if sample_weight is not None:
            weight = check_sample_weight(sample_weight, len(indices))
            prepared.sample_weight = torch.zeros(prepared.split.size)
            prepared.sample_weight[torch.from_numpy(indices)] = torch.from_numpy(weight)
        device = find_device(config.train.device)
        history: list[dict[str, Any]] = []

        def on_epoch(epoch: Epoch) -> None:
            history.append(dict(epoch.record))
            self._print_epoch(epoch, config.train.epochs)

        model, progress = train_members(config, prepared, self.n_estimators, device, on_epoch)
        if config.train.calibrate:
            check_calibration(prepared)
            prepared.task = calibrate(model, prepared, config, device)
        self.model_, self.history_ = model.eval(), history
        self.n_iter_, self.best_epoch_ = progress.epoch, progress.best_epoch
        self.config_, self.shape_, self.task_ = config, prepared.shape, prepared.task
        self.encoding_ = preprocessor.encoding
        self.n_features_in_ = num_features(prepared.shape.features)
        if classes is not None:
            self.classes_ = classes
        return self

    def _targets(self, y: Any, stored_targets: Any, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the targets of the examples, ``y`` or those stored in the graphs, and a mask of the known ones."""
        if y is not None:
            column = to_column(y, indices)
        elif stored_targets is None:
            raise ValueError(f"the {'graph has' if self._level == 'node' else 'graphs have'} no targets: pass y")
        else:
            column = to_column(stored_targets, stored_targets)
            if len(column) <= indices.max():
                raise ValueError(f"the graph has only {len(column)} targets, so node {indices.max()} has none")
            column = column[indices]
        known = ~is_missing(column, minus_one=self._level == "node" and is_classifier(self))
        if self._level == "graph" and not known.all():
            raise ValueError(
                f"Input y contains NaN or None: graph {known.argmin()} has no target, but every graph needs one"
            )
        return column, known

    def _apply_masks(self, X: Any, used: np.ndarray, validation: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """Return a mask of the examples to use, and among these a mask of the validation set, if it is given."""
        validation_mask = None if validation is None else check_mask(validation, len(used), "validation")
        if isinstance(X, Data):  # with node indices, X itself selects the nodes and masks are ignored
            validation_mask = _mask(X, "val_mask") if validation_mask is None else validation_mask
            if (train_mask := _mask(X, "train_mask")) is not None:
                used = used & (train_mask if validation_mask is None else train_mask | validation_mask)
            elif (test_mask := _mask(X, "test_mask")) is not None:
                used = used & ~test_mask
        if validation_mask is not None:
            validation_mask = validation_mask[used]
            if not validation_mask.any():
                raise ValueError(f"the validation mask selects no labeled {self._level}: it must select at least one")
        return used, validation_mask

    def _prepare(
        self,
        config: Config,
        data: Data | GraphDataset,
        indices: np.ndarray,
        targets: Tensor,
        validation_mask: np.ndarray,
    ) -> Prepared:
        """Return the data, split and task for the training loop. Targets of unlabeled examples are masked."""
        if validation_mask.all():
            raise ValueError("all labeled examples are in the validation set: leave some for training")
        if isinstance(data, GraphDataset) and (~validation_mask).sum() < 2:
            raise ValueError("only one graph is left for training, but batch normalization needs two: give more graphs")
        is_train, rows = torch.from_numpy(~validation_mask), torch.from_numpy(indices)
        num_outputs = int(targets.max()) + 1 if self._target_type == "classification" else 1
        data = self._transform(data, num_outputs, config)
        size = len(data) if isinstance(data, GraphDataset) else int(data.num_nodes)
        data.y = torch.full((size,), -1 if self._target_type == "classification" else float("nan"), dtype=targets.dtype)
        data.y[rows] = targets
        empty = torch.empty(0, dtype=torch.int64)
        split = Split("hold-out", config.train.seed, size, rows[is_train], rows[~is_train], empty)
        metric = config.train.metric or DEFAULT_METRICS[self._target_type]
        check_metric(metric, self._target_type)
        task = make_task(self._target_type, metric, targets[is_train])
        shape = infer_shape(data, split.train)
        prepared = Prepared(data, split, task, shape, HeldOutLabels(empty), data_hash="")
        apply_class_priors(prepared, config.train)
        add_model_inputs(prepared.data, config.model.name)
        return prepared

    def _transform(self, data: Data | GraphDataset, num_outputs: int, config: Config) -> Data | GraphDataset:
        """Transform the features as configured, and attach the ``DatasetInfo`` that the training code reads."""
        metric = DEFAULT_METRICS[self._target_type]
        data.info = DatasetInfo("", self._level, self._target_type, metric, num_outputs, "memory")
        return transform_features(data, config.data)

    def _outputs(self, X: Any, model: torch.nn.Module | None = None) -> tuple[Tensor, np.ndarray, Any]:
        """Compute the outputs of the model for each example of ``X``; also return its indices and stored targets."""
        check_is_fitted(self, "model_")
        data, indices, stored_targets = self._examples(X, Preprocessor(self.encoding_))
        data = data if self.shape_.edge_weights else drop_unit_weights(data)
        config, device = self.config_, find_device(self.device or self.config_.train.device)
        data = self._transform(data, self.shape_.outputs, config)
        check_compatible(config.model, self.shape_, infer_shape(data), "X", type(self).__name__)
        add_model_inputs(data, config.model.name)
        batches = make_inference_batches(data, None, config.train.batch_size, device)
        outputs = infer((model or self.model_).to(device), batches, config.train.precision, device)
        return outputs.cpu()[torch.from_numpy(indices)], indices, stored_targets

    def predict(self, X: Any) -> np.ndarray:
        """Predict the target of each example: the most probable class, or the number.

        Args:
            X: Nodes or graphs, as for :meth:`fit`.
        """
        return self._decode(self._outputs(X)[0])

    def predict_std(self, X: Any) -> np.ndarray:
        """Return the standard deviation of the predictions over the networks, if ``n_estimators`` is above 1.

        Args:
            X: Nodes or graphs, as for :meth:`fit`.

        Returns:
            Standard deviation of the probability of each class, ``[N, C]``, or of the number, ``[N]``.
        """
        check_is_fitted(self, "model_")
        if not isinstance(self.model_, Ensemble):
            raise ValueError("predict_std needs several networks: set n_estimators to 2 or more and fit again")
        parts = []
        for member in self.model_.members:
            values, probabilities = self.task_.predictions(self._outputs(X, member)[0])
            parts.append(values.reshape(-1) if probabilities is None else probabilities)
        return torch.stack(parts).std(0).numpy()

    def _score(
        self,
        metric: Callable[..., float],
        check_targets: Callable[[np.ndarray], np.ndarray],
        X: Any,
        y: Any,
        sample_weight: Any,
    ) -> float:
        """Compare the predictions with the known targets."""
        outputs, indices, stored_targets = self._outputs(X)
        targets, known = self._targets(y, stored_targets, indices)
        if y is None and isinstance(X, Data) and (test_mask := _mask(X, "test_mask")) is not None:
            known = known & test_mask
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(metric(check_targets(targets[known]), self._decode(outputs)[known], sample_weight=weight))

    def _print_epoch(self, epoch: Epoch, max_epochs: int) -> None:
        interval = 1 if self.verbose > 1 else max(1, max_epochs // 10)
        if self.verbose and (epoch.number % interval == 0 or epoch.number == max_epochs - 1):
            print(
                f"epoch {epoch.number}: loss {epoch.loss:.4f}, validation {epoch.score:.4f}, "
                f"best {epoch.best_score:.4f} at epoch {epoch.best_epoch}"
            )

    def _attribute_names(self) -> NetworkXAttributes:
        names = self.x_attribute, self.y_attribute, self.weight_attribute
        return NetworkXAttributes(*names, self._level, self.undirected, self._needs_features())

    def _needs_features(self) -> bool:
        return self._level == "graph" or "node features" in get_model(self.model).needs

    # ---- saving and loading ----------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str]) -> None:
        """Save the fitted estimator to one safetensors file. The parameter ``graph`` is not saved.

        Args:
            path: The file to write.
        """
        check_is_fitted(self, "model_")
        write_estimator(self, Path(path))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Load an estimator that :meth:`save` has written. Nothing is unpickled.

        Args:
            path: The file to read.
        """
        return read_estimator(cls, Path(path))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class Classifier(ClassifierMixin, Estimator):
    """Base class of classifiers. Class labels are strings or numbers, and predictions have the same labels."""

    _target_type: ClassVar[TaskTypeName] = "classification"

    class_weight: Any = None

    def predict_proba(self, X: Any) -> np.ndarray:
        """Predict the probability of each class, in the order of ``classes_``.

        Args:
            X: Nodes or graphs, as for :meth:`fit`.
        """
        return self._probabilities(self._outputs(X)[0])

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy of the predictions.

        Args:
            X: Nodes or graphs, as for :meth:`fit`.
            y: True classes. ``None`` uses those of ``X``.
            sample_weight: Weight of each example.
        """
        return self._score(accuracy_score, check_labels, X, y, sample_weight)

    def _encode(self, y: np.ndarray) -> tuple[Tensor, np.ndarray | None]:
        classes, indices = np.unique(check_labels(y), return_inverse=True)
        if len(classes) < 2:
            labels = f"one class, {classes.tolist()[0]!r}" if len(classes) else "no labels"
            hint = " (-1 means unlabeled)" if self._level == "node" else ""
            raise ValueError(f"{type(self).__name__} needs at least two classes, but y has {labels}{hint}")
        return torch.from_numpy(indices.astype(np.int64)), classes

    def _decode(self, outputs: Tensor) -> np.ndarray:
        labels: np.ndarray = self.classes_[self._probabilities(outputs).argmax(1)]
        return labels

    def _probabilities(self, outputs: Tensor) -> np.ndarray:
        _, probabilities = self.task_.predictions(outputs)
        assert probabilities is not None
        return probabilities.numpy()


class Regressor(RegressorMixin, Estimator):
    """Base class of regressors. Targets are numbers."""

    _target_type: ClassVar[TaskTypeName] = "regression"

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R² of the predictions.

        Args:
            X: Nodes or graphs, as for :meth:`fit`.
            y: True targets. ``None`` uses those of ``X``.
            sample_weight: Weight of each example.
        """
        return self._score(r2_score, check_numbers, X, y, sample_weight)

    def _encode(self, y: np.ndarray) -> tuple[Tensor, np.ndarray | None]:
        return torch.from_numpy(check_numbers(y)).float(), None

    def _decode(self, outputs: Tensor) -> np.ndarray:
        return self.task_.predictions(outputs)[0].reshape(-1).numpy()


def _mask(data: Data, name: str) -> np.ndarray | None:
    mask = data.get(name)
    if mask is None:
        return None
    if mask.dim() == 2:
        raise ValueError(f"{name} has {mask.size(1)} columns, one for each split: select one column")
    return check_mask(mask, int(data.num_nodes), name)
