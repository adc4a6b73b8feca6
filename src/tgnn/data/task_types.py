"""Task types: classification, multi-label classification and regression."""

from __future__ import annotations

from enum import Enum
from typing import Literal, TypeAlias, get_args

TaskTypeName: TypeAlias = Literal["classification", "multi-label", "regression"]
"""How ``--task``, ``schema.yaml`` and stored files name a :class:`TaskType`."""

DEFAULT_METRICS = {"classification": "accuracy", "multi-label": "roc-auc", "regression": "mae"}
"""Default metric of each :class:`TaskType`, by its value."""


class TaskType(Enum):
    """The type of a prediction task. Its value is a :data:`TaskTypeName`.

    Example:
        >>> TaskType("regression").default_metric
        'mae'
    """

    CLASSIFICATION = "classification"
    """One of several classes. Targets are class indices, -1 if unlabeled."""
    MULTI_LABEL = "multi-label"
    """Any of several binary labels. Targets are 0 or 1, NaN if unlabeled."""
    REGRESSION = "regression"
    """One or more real numbers. Targets are floats, NaN if unlabeled."""

    @property
    def default_metric(self) -> str:
        """Metric for this type of task: ``"accuracy"``, ``"roc-auc"`` or ``"mae"``."""
        return DEFAULT_METRICS[self.value]


def check_task_type(name: object) -> None:
    """Raise a ``ValueError`` if a name is not that of a :class:`TaskType`.

    Example:
        >>> check_task_type("classes")
        Traceback (most recent call last):
        ValueError: the task is 'classes', but must be 'classification', 'multi-label' or 'regression'
    """
    *others, last = (repr(value) for value in get_args(TaskTypeName))
    if name not in get_args(TaskTypeName):
        raise ValueError(f"the task is {name!r}, but must be {', '.join(others)} or {last}")
