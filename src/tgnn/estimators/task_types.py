"""The two kinds of targets: classes and numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from torch import Tensor

from tgnn.estimators.base import Estimator
from tgnn.estimators.targets import as_labels, as_numbers


class Classifier(ClassifierMixin, Estimator):
    """Targets are classes, text or numbers; predictions are given as the same."""

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each example.

        Args:
            X: Examples, as the class says.
        """
        best = self.predict_proba(X).argmax(1)
        labels: np.ndarray = self.classes_[best]
        return labels

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, in the order of ``classes_``.

        Args:
            X: Examples, as the class says.
        """
        outputs = self._outputs(X)
        _, probabilities = self.task_.predictions(outputs)
        assert probabilities is not None
        return probabilities.numpy()

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy.

        Args:
            X: Examples, as the class says.
            y: Their classes; ``None``: those that come with ``X``.
            sample_weight: Of each example.
        """
        guess = self.predict(X)
        known, truth = self._truth(X, y)
        return float(accuracy_score(as_labels(truth), guess[known], sample_weight=_at(sample_weight, known)))

    def _encode(self, y: np.ndarray) -> tuple[Tensor, np.ndarray | None]:
        classes, codes = np.unique(as_labels(y), return_inverse=True)
        if len(classes) < 2:
            found = f"one class, {classes.tolist()[0]!r}" if len(classes) else "none"
            hint = "; -1 means unlabelled" if self._level == "node" else ""
            raise ValueError(f"{type(self).__name__} needs two classes or more to tell apart, y has {found}{hint}")
        return torch.from_numpy(codes.astype(np.int64)), classes


class Regressor(RegressorMixin, Estimator):
    """Targets are numbers."""

    def predict(self, X: Any) -> np.ndarray:
        """The number of each example.

        Args:
            X: Examples, as the class says.
        """
        outputs = self._outputs(X)
        numbers, _ = self.task_.predictions(outputs)
        return numbers.reshape(-1).numpy()

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """R², the share of the variance that is explained.

        Args:
            X: Examples, as the class says.
            y: Their numbers; ``None``: those that come with ``X``.
            sample_weight: Of each example.
        """
        guess = self.predict(X)
        known, truth = self._truth(X, y)
        return float(r2_score(as_numbers(truth), guess[known], sample_weight=_at(sample_weight, known)))

    def _encode(self, y: np.ndarray) -> tuple[Tensor, np.ndarray | None]:
        return torch.from_numpy(as_numbers(y)).float(), None


def _at(values: Any, known: np.ndarray) -> np.ndarray | None:
    return None if values is None else np.asarray(values)[known]
