"""Baselines of a result on the same split: a constant prediction, and the same features without the graph."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils.class_weight import compute_sample_weight
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from torch import Tensor

from tgnn.data.dataset_info import LoadedData
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.on_disk import DiskGraph
from tgnn.training.metrics import Task
from tgnn.training.prepare import Prepared
from tgnn.training.result_details import all_scores

logger = logging.getLogger("tgnn")

_MAX_COST = 500
"""Maximum of columns times trees per iteration for gradient boosting (about two seconds). Above it, an MLP is used."""
_MAX_ROWS = 50_000
"""Maximum number of training examples. Larger training sets are subsampled at random."""
_MAX_OUTPUTS = 30
"""Maximum number of labels or regression targets, each of which has a model. Above it, only the constant is scored."""
_MAX_CATEGORIES = 256
"""Maximum number of categories of a column that is encoded as counts."""

MakeModel = Callable[[], Any]


def score_baselines(prepared: Prepared, test_labels: Tensor, seed: int) -> list[dict[str, Any]]:
    """Train the baselines of a run on its training set and score them on its test set.

    The first baseline predicts the class priors or the mean of the training set. The second is gradient boosting on the
    node features without the edges, or an MLP if there are many columns or classes. With the metric MAE, boosting is
    trained with the absolute and with the squared error, and the better model on the validation set is used. (The
    absolute error fits medians, which are constant for many targets.) The features of a graph are counts of its nodes'
    categories, means of its numeric features, and its number of nodes. Data without features, and graphs on disk, have
    only the first baseline.

    Args:
        prepared: Data, split and task of the run.
        test_labels: Targets of the test set.
        seed: Random seed of the models.

    Returns:
        For each baseline, its ``name``, its test metric ``test`` and all ``scores``.
    """
    task = replace(prepared.task, log_prior_ratio=())
    is_regression = task.target == "regression"
    test_labels = test_labels.cpu()
    train, val, test = (part.cpu() for part in (prepared.split.train, prepared.split.val, prepared.split.test))
    if len(train) > _MAX_ROWS:
        train = train[torch.randperm(len(train), generator=torch.Generator().manual_seed(seed))[:_MAX_ROWS]]
    assert prepared.data.y is not None
    y = prepared.data.y[train].cpu()
    constant = (lambda: DummyRegressor()) if is_regression else (lambda: DummyClassifier(strategy="prior"))
    plans: list[tuple[str, list[MakeModel], list[np.ndarray]]] = [
        (
            "mean" if is_regression else "majority class",
            [constant],
            [np.zeros((len(part), 1)) for part in (train, val, test)],
        )
    ]
    features = feature_matrix(prepared.data)
    if features is not None and (task.target == "classification" or prepared.shape.outputs <= _MAX_OUTPUTS):
        trees = prepared.shape.outputs if task.target == "classification" and prepared.shape.outputs > 2 else 1
        is_boosted = features.shape[1] * trees * _num_models(task, y) <= _MAX_COST
        name = f"{'gradient boosting' if is_boosted else 'MLP'} without the graph"
        rows = [_dense(features, part) for part in (train, val, test)]
        plans.append((name, _model_makers(task, is_boosted, len(train), seed), rows))
    results = []
    for name, makers, (x_train, x_val, x_test) in plans:
        try:
            with threadpool_limits(torch.get_num_threads()), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # an MLP that has not converged, a class with one member
                fit = partial(_fit_outputs, x_train=x_train, y=y, task=task, outputs=prepared.shape.outputs)
                make = makers[0]
                if len(makers) > 1 and len(val):
                    val_labels = prepared.data.y[val].cpu()
                    errors = [task.score(fit(each, x_test=x_val), val_labels) for each in makers]
                    make = makers[errors.index(min(errors))]
                out = fit(make, x_test=x_test)
            results.append(
                {"name": name, "test": task.score(out, test_labels), "scores": all_scores(task, out, test_labels)}
            )
        except ValueError as error:
            logger.warning("The baseline %r failed: %s", name, error)
    return results


def _num_models(task: Task, y: Tensor) -> int:
    return 1 if task.target == "classification" or y.dim() == 1 else y.size(1)


def _model_makers(task: Task, is_boosted: bool, rows: int, seed: int) -> list[MakeModel]:
    """Return functions that make an untrained scikit-learn model. Several are regression models to select from."""
    leaf = max(1, min(20, rows // 20))  # scikit-learn's 20 examples per leaf cannot split small training sets
    if is_boosted and task.target == "regression":
        losses = ("absolute_error", "squared_error") if task.metric == "mae" else ("squared_error",)
        boosting = partial(HistGradientBoostingRegressor, min_samples_leaf=leaf, random_state=seed)
        return [partial(boosting, loss=loss) for loss in losses]
    if is_boosted:
        return [lambda: HistGradientBoostingClassifier(min_samples_leaf=leaf, random_state=seed)]
    mlp = MLPRegressor if task.target == "regression" else MLPClassifier
    options = {"hidden_layer_sizes": (64,), "early_stopping": rows >= 200, "max_iter": 100, "random_state": seed}
    return [lambda: make_pipeline(MaxAbsScaler(), mlp(**options))]


def _fit_outputs(
    make: MakeModel, x_train: np.ndarray, y: Tensor, x_test: np.ndarray, task: Task, outputs: int
) -> Tensor:
    """Train models and return their test predictions as logits or standardized values, ``[N, outputs]``."""
    if task.target == "classification":
        model, classes = _fit(make, x_train, y.numpy(), task), torch.unique(y)
        probabilities = torch.zeros(len(x_test), outputs, dtype=torch.float64)
        probabilities[:, classes] = torch.from_numpy(model.predict_proba(x_test)).double()
        return probabilities.clamp_min(1e-6).log().float()
    columns = []
    for number, column in enumerate(y.reshape(len(y), -1).unbind(1)):
        known = ~column.isnan()
        values, rows = column[known].double().numpy(), x_train[known.numpy()]
        if task.target == "regression":
            if not len(values):
                columns.append(torch.zeros(len(x_test)))
                continue
            center, scale = task.center[number], task.scale[number]
            predicted = _fit(make, rows, (values - center) / scale, task).predict(x_test)
            columns.append(torch.from_numpy(predicted).float())
            continue
        if len(np.unique(values)) < 2:
            probability = np.full(len(x_test), values.mean() if len(values) else 0.5)
        else:
            probability = _fit(make, rows, values.astype(int), task).predict_proba(x_test)[:, 1]
        columns.append(torch.logit(torch.from_numpy(probability), eps=1e-6).float())
    return torch.stack(columns, 1)


def _fit(make: MakeModel, x: np.ndarray, y: np.ndarray, task: Task) -> Any:
    model = make()
    if not task.class_weight or isinstance(model, DummyClassifier):
        return model.fit(x, y)
    step = "" if not hasattr(model, "steps") else f"{model.steps[-1][0]}__"
    return model.fit(x, y, **{f"{step}sample_weight": compute_sample_weight("balanced", y)})


# ---- features --------------------------------------------------------------------------------------------------


def feature_matrix(data: LoadedData) -> Tensor | None:
    """Return the features of each node or graph without edges. ``None``: there are none, or they are on disk."""
    if isinstance(data, DiskGraph) or data.x is None:
        return None
    if not isinstance(data, GraphDataset):
        x: Tensor = data.x.cpu()
        return x if x.dim() == 2 else x.unsqueeze(1)
    x = data.x.cpu() if data.x.dim() == 2 else data.x.cpu().unsqueeze(1)
    num_categorical = data.num_categorical if x.is_floating_point() else x.size(1)
    num_nodes = data.num_nodes.cpu()
    graph = torch.arange(len(data)).repeat_interleave(num_nodes)
    parts = [num_nodes.float().unsqueeze(1)]
    for column in x[:, :num_categorical].long().unbind(1):
        categories = min(int(column.max()) + 1 if len(column) else 1, _MAX_CATEGORIES)
        parts.append(_sum_rows(F.one_hot(column.clamp_max(categories - 1), categories).float(), graph, len(data)))
    if num_categorical < x.size(1):
        sums = _sum_rows(x[:, num_categorical:].float(), graph, len(data))
        parts.append(sums / num_nodes.clamp_min(1).unsqueeze(1))
    pooled = torch.cat(parts, 1)
    return pooled[:, pooled.amax(0) > pooled.amin(0)] if len(pooled) else pooled


def _sum_rows(values: Tensor, index: Tensor, size: int) -> Tensor:
    return torch.zeros(size, values.size(1)).index_add_(0, index, values)


def _dense(features: Tensor, rows: Tensor) -> np.ndarray:
    if features.layout == torch.sparse_csr:
        features = features.to_dense()
    selected: np.ndarray = features[rows].float().numpy()
    return selected
