"""Baselines on the split of a run: a constant prediction, and the features without the graph."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from torch_geometric.data import Data

from tgnn.data.dataset_info import infer_dataset_info
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.splits import Split
from tgnn.training.baselines import feature_matrix, score_baselines
from tgnn.training.prepare import Prepared, hold_out_test_labels


def prepare_nodes(x: torch.Tensor | None, y: torch.Tensor, metric: str | None = None) -> tuple[Prepared, torch.Tensor]:
    """Prepare nodes without edges, and return the targets of the test set."""
    size = len(y)
    data = Data(x=x, edge_index=torch.empty(2, 0, dtype=torch.long), y=y, num_nodes=size)
    data.info = infer_dataset_info(data, "mine", "memory")
    parts = torch.arange(size)
    split = Split("mine", 0, size, parts[: size // 2], parts[size // 2 : -size // 4], parts[-size // 4 :])
    prepared = hold_out_test_labels(data, split, metric)
    return prepared, prepared.test_labels.read()


def test_classes():
    x = torch.randn(120, 3, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] > 0).long() + (x[:, 1] > 1.5).long()
    prepared, labels = prepare_nodes(x, y)
    constant, boosting = score_baselines(prepared, labels, seed=0)
    majority = torch.bincount(y[:60]).argmax()
    assert (constant["name"], constant["test"]) == ("majority class", float((labels == majority).float().mean()))
    assert boosting["name"] == "gradient boosting without the graph"
    model = HistGradientBoostingClassifier(min_samples_leaf=3, random_state=0).fit(x[:60].numpy(), y[:60].numpy())
    assert boosting["test"] == pytest.approx(model.score(x[-30:].numpy(), labels.numpy()))
    assert set(boosting["scores"]) >= {"accuracy", "macro-f1", "roc-auc", "log-loss"}


def test_many_columns_train_an_mlp_and_sparse_features_are_read():
    x = torch.zeros(80, 600)
    y = torch.arange(80) % 2
    x[torch.arange(80), 300 * y] = 1.0
    for features in (x, x.to_sparse_csr()):
        _, mlp = score_baselines(*prepare_nodes(features, y), seed=0)
        assert (mlp["name"], mlp["test"]) == ("MLP without the graph", 1.0)


def test_labels_and_numbers_with_unknown_entries():
    x = torch.randn(80, 2, generator=torch.Generator().manual_seed(0))
    labels = (x > 0).float()
    labels[0, 0] = float("nan")
    constant, boosting = score_baselines(*prepare_nodes(x, labels), seed=0)
    assert (constant["test"], boosting["test"] > 0.9) == (0.5, True)
    numbers = x * torch.tensor([1.0, 100.0])
    numbers[1, 1] = float("nan")
    constant, boosting = score_baselines(*prepare_nodes(x, numbers), seed=0)
    assert constant["name"] == "mean"
    assert boosting["test"] < constant["test"] / 2
    assert set(boosting["scores"]) == {"mae", "rmse", "r2"}


def test_boosting_for_the_mean_absolute_error_is_no_constant_median():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400, 4, generator=generator)
    y = (x[:, 0] + 0.3 * torch.randn(400, generator=generator) > 0.4).float()
    constant, boosting = score_baselines(*prepare_nodes(x, y, "mae"), seed=0)
    assert boosting["test"] < 0.8 * constant["test"]
    assert boosting["scores"]["r2"] > 0.1


def test_data_without_features_has_the_constant_baseline_only():
    y = torch.arange(40) % 3
    assert [row["name"] for row in score_baselines(*prepare_nodes(None, y), seed=0)] == ["majority class"]


def test_graphs_are_described_by_counts_means_and_size():
    arrays = {"num_nodes": [2, 1], "x": np.array([[0.0, 5.0], [2.0, 7.0], [1.0, 1.0]], dtype=np.float32)}
    graphs = GraphDataset(arrays)
    graphs.num_categorical = 1
    matrix = feature_matrix(graphs)
    assert matrix is not None
    # number of nodes, counts of the categories 0, 1 and 2, mean of the second column
    assert matrix.tolist() == [[2.0, 1.0, 0.0, 1.0, 6.0], [1.0, 0.0, 1.0, 0.0, 1.0]]
