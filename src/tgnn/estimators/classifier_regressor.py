"""``predict`` and ``score`` of classifiers and regressors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from torch import Tensor

from tgnn.estimators.base import Estimator
from tgnn.estimators.targets import check_labels, check_numbers


class Classifier(ClassifierMixin, Estimator):
    """Base class of classifiers. Class labels are strings or numbers, and predictions have the same labels."""

    def predict(self, X: Any) -> np.ndarray:
        """Predict the most probable class of each example.

        Args:
            X: Nodes or graphs, as for :meth:`fit`.
        """
        best = self.predict_proba(X).argmax(1)
        labels: np.ndarray = self.classes_[best]
        return labels

    def predict_proba(self, X: Any) -> np.ndarray:
        """Predict the probability of each class, in the order of ``classes_``.

        Args:
            X: Nodes or graphs, as for :meth:`fit`.
        """
        outputs = self._outputs(X)
        _, probabilities = self.task_.predictions(outputs)
        assert probabilities is not None
        return probabilities.numpy()

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy of the predictions.

        Args:
            X: Nodes or graphs, as for :meth:`fit`.
            y: True classes. ``None`` uses those of ``X``.
            sample_weight: Weight of each example.
        """
        predicted = self.predict(X)
        known, labels = self._known_targets(X, y)
        weight = _select(sample_weight, known)
        return float(accuracy_score(check_labels(labels), predicted[known], sample_weight=weight))

    def _encode(self, y: np.ndarray) -> tuple[Tensor, np.ndarray | None]:
        classes, indices = np.unique(check_labels(y), return_inverse=True)
        if len(classes) < 2:
            labels = f"one class, {classes.tolist()[0]!r}" if len(classes) else "no labels"
            hint = " (-1 means unlabeled)" if self._level == "node" else ""
            raise ValueError(f"{type(self).__name__} needs at least two classes, but y has {labels}{hint}")
        return torch.from_numpy(indices.astype(np.int64)), classes


class Regressor(RegressorMixin, Estimator):
    """Base class of regressors. Targets are numbers."""

    def predict(self, X: Any) -> np.ndarray:
        """Predict the target of each example.

        Args:
            X: Nodes or graphs, as for :meth:`fit`.
        """
        outputs = self._outputs(X)
        numbers, _ = self.task_.predictions(outputs)
        return numbers.reshape(-1).numpy()

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R² of the predictions.

        Args:
            X: Nodes or graphs, as for :meth:`fit`.
            y: True targets. ``None`` uses those of ``X``.
            sample_weight: Weight of each example.
        """
        predicted = self.predict(X)
        known, targets = self._known_targets(X, y)
        weight = _select(sample_weight, known)
        return float(r2_score(check_numbers(targets), predicted[known], sample_weight=weight))

    def _encode(self, y: np.ndarray) -> tuple[Tensor, np.ndarray | None]:
        return torch.from_numpy(check_numbers(y)).float(), None


def _select(values: Any, mask: np.ndarray) -> np.ndarray | None:
    return None if values is None else np.asarray(values)[mask]
