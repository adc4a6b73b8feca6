"""Compatibility between a trained model and new data: one check for ``predict`` and for estimators."""

from __future__ import annotations

from tgnn.models import DataShape, get_model
from tgnn.training.config import ModelConfig


class IncompatibleDataError(ValueError):
    """The data cannot be used with the trained model. The message says which part differs."""


def check_compatible(
    model: ModelConfig, trained: DataShape, new: DataShape, data_name: str, model_name: str = "the model"
) -> None:
    """Raise :class:`IncompatibleDataError` unless a trained model can process new data.

    Args:
        model: Configuration of the model.
        trained: Shape of the training data.
        new: Shape of the new data.
        data_name: Name of the new data in the message.
        model_name: Name of the model in the message.

    Example:
        >>> check_compatible(ModelConfig(), DataShape("node", 4, None, 2), DataShape("node", 3, None, 2), "X")
        Traceback (most recent call last):
        tgnn.training.compatibility.IncompatibleDataError: X has 3 features, but the model is expecting 4 features ...
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


Width = int | tuple[int, ...] | None


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
