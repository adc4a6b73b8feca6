"""Wrong inputs raise the exception types of scikit-learn, with a message that says what is wrong."""

from __future__ import annotations

import networkx
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import torch
from sklearn.exceptions import NotFittedError
from torch_geometric.data import Data

from tests.unit.estimators.conftest import rings
from tgnn import GraphClassifier, GraphRegressor, NodeClassifier, NodeRegressor
from tgnn.data.graph_dataset import GraphDataset, pack

QUICK = {"epochs": 2, "hidden": 4, "rank": 2, "random_state": 0}
X, EDGES, Y = np.eye(6), np.array([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]]), [0, 1, 0, 1, 0, 1]
GRAPH, NOBODY, EVERYBODY = (X, EDGES), np.zeros(6, dtype=bool), np.ones(6, dtype=bool)
MASKS = {"x": torch.eye(6), "edge_index": torch.from_numpy(EDGES), "train_mask": torch.ones(6, 10, dtype=torch.bool)}


CATEGORIES = torch.ones(2, 2).long()


def pair(**attributes: torch.Tensor) -> Data:
    """Return a graph of two nodes and one edge."""
    return Data(**{"x": torch.ones(2, 2), "edge_index": torch.tensor([[0], [1]]), **attributes})


def path_with_features(*rows: list[float]) -> networkx.Graph:
    graph = networkx.path_graph(len(rows))
    networkx.set_node_attributes(graph, dict(enumerate(rows)), "x")
    return graph


@pytest.mark.parametrize("kind", [NodeClassifier, NodeRegressor, GraphClassifier, GraphRegressor])
def test_not_fitted(kind, tmp_path):
    with pytest.raises(NotFittedError, match=f"This {kind.__name__} instance is not fitted yet"):
        kind().predict([])
    with pytest.raises(NotFittedError):
        kind().score([], [])
    with pytest.raises(NotFittedError):
        kind().save(tmp_path / "model")
    if "Classifier" in kind.__name__:
        with pytest.raises(NotFittedError):
            kind().predict_proba([])


@pytest.mark.parametrize(
    ("graph", "text"),
    [
        ((np.ones((3, 2)), [[0, 3], [1, 1]]), r"edge_index contains node 3, but the graph has 3 nodes \(0 to 2\)"),
        ((np.ones((3, 2)), [[0, -1], [1, 1]]), "edge_index contains node -1"),
        ((np.ones((3, 2)), [[0.0, 1.0], [1, 1]]), "edge_index must contain integers"),
        (
            (np.ones((3, 2)), pl.DataFrame({"source": ["ann", "bob"], "target": ["bob", "carol"]})),
            r"edge_index must contain positions of rows of X \(0 to 2\), got 'ann'. Replace each id by its position",
        ),
        ((np.ones((3, 2)), pd.DataFrame({"source": [0, 1], "target": ["1", "2"]})), "positions of rows .* got '1'"),
        ((np.ones((3, 2)), [["a", "b"], ["b", "c"]]), "positions of rows of X"),
        ((np.ones((3, 2)), [[0, 1], [1, 1], [2, 2]]), r"edge_index must have shape \[2, E\] .* got \[3, 2\]"),
        ((np.ones((3, 2)), [0, 1]), r"edge_index must have shape \[2, E\]"),
        ((np.ones(3), [[0], [1]]), "Expected 2D array"),
        ((np.ones((3, 0)), [[0], [1]]), r"X has 0 feature\(s\)"),
        ((np.ones((0, 3)), np.empty((2, 0))), r"0 node\(s\)"),
        ((np.array([[np.nan], [np.nan]]), [[0], [1]]), "Input X contains NaN"),  # which has no mean
        ((np.array([[1e300], [1]]), [[0], [1]]), "Input X contains infinity"),
        ((scipy.sparse.csr_array([[np.inf], [1]]), [[0], [1]]), "Input X contains infinity"),
        ((np.array([["a"], ["b"]]), [[0], [1]]), "X must contain numbers"),
        ((np.array([["a"], [None]], dtype=object), [[0], [1]]), "X must contain numbers"),
        ((np.array([[1j], [1]]), [[0], [1]]), "Complex data not supported"),
        ((np.ones((3, 2)), scipy.sparse.eye_array(4)), r"shape \[4, 4\], but the graph has 3 nodes"),
        ((torch.tensor([[-2], [1]]), [[0], [1]]), "contains category -2"),
        (Data(x=torch.ones(3, 1)), "no edge_index"),
        (pair(edge_attr=torch.ones(2, 1)), "edge_attr has 2 rows, but the graph has 1 edges"),
        (pair(edge_weight=torch.ones(2)), "edge_weight has 2 entries, but the graph has 1 edges"),
        (pair(edge_weight=torch.tensor([torch.nan])), "edge_weight contains NaN"),
        (pair(edge_weight=torch.tensor([3.0])), "an edge weight is 3, but must lie between 0"),
        (pair(x=torch.ones(2, 2) * 1j), "Complex data not supported"),
        (path_with_features([1.0], [1.0, 2.0], [1.0]), "must have the same shape"),
    ],
)
def test_invalid_graphs(graph, text):
    with pytest.raises(ValueError, match=text):
        NodeClassifier(**QUICK).fit(graph, [0, 1, 0])
    with pytest.raises(ValueError, match=text):
        NodeClassifier(graph=graph, **QUICK).fit([0, 1], [0, 1])


@pytest.mark.parametrize(
    ("estimator", "arguments", "text"),
    [
        (NodeClassifier, (GRAPH,), "the graph has no targets: pass y"),
        (NodeClassifier, (GRAPH, [0, 1, 0]), r"inconsistent numbers of samples: \[6, 3\]"),
        (NodeClassifier, (GRAPH, [1] * 6), r"at least two classes, but y has one class, 1 \(-1 means unlabeled\)"),
        (NodeClassifier, (GRAPH, [-1, 1] * 3), r"y has one class, 1 \(-1 means unlabeled\)"),
        (NodeClassifier, (GRAPH, [None] * 6), "y has no labels"),
        (NodeClassifier, (GRAPH, [0.5, 1.5, 2.5, 0.1, 0.2, 0.3]), "Unknown label type: continuous"),
        (NodeClassifier, (GRAPH, [0.0, np.inf, 0.0, 1.0, 1.0, 1.0]), "infinity"),
        (NodeClassifier, (GRAPH, ["a", 1, "b", 2, "a", 1]), "only strings or only numbers, got int, str"),
        (NodeClassifier, (GRAPH, np.ones((6, 2), dtype=int)), "1d array"),
        (NodeClassifier, (GRAPH, [0, 1, 2, 3, -1, -1]), "4 labeled examples of 4 classes are too few"),
        (NodeClassifier, (GRAPH, Y, [1, 2]), r"validation must be a boolean array of shape \[6\]"),
        (NodeClassifier, (GRAPH, Y, NOBODY), "the validation mask selects no labeled node"),
        (NodeClassifier, (GRAPH, Y, EVERYBODY), "all labeled examples are in the validation set"),
        (NodeClassifier, (Data(**MASKS), Y), "train_mask has 10 columns, one for each split"),
        (NodeClassifier, (pair(x=torch.eye(6), y=torch.tensor([0, 1])),), "only 2 targets, so node 5 has none"),
        (NodeClassifier, ([0, 1], [0, 1]), r"pass their graph as NodeClassifier\(graph=...\)"),
        (NodeClassifier, (X, Y), "X must be a torch_geometric Data"),
        (NodeRegressor, (GRAPH, [1.0, 2.0]), r"inconsistent numbers of samples: \[6, 2\]"),
        (NodeRegressor, (GRAPH, ["a"] * 6), "y must contain numbers for a regression"),
        (NodeRegressor, (GRAPH, ["a", 1.0] * 3), "y must contain numbers for a regression: could not convert"),
        (NodeRegressor, (GRAPH, [1.0, np.inf] * 3), "Input y contains infinity"),
        (NodeRegressor, (GRAPH, [np.nan] * 6), "0 labeled examples are too few to hold out a validation set"),
        (NodeRegressor, (GRAPH, np.ones((6, 2))), "1d array"),
        (GraphClassifier, ([GRAPH],), "the graphs have no targets: pass y"),
        (GraphClassifier, (rings(6), [0, 1]), r"inconsistent numbers of samples: \[6, 2\]"),
        (GraphClassifier, (rings(6), [0, 1, None, 0, 1, 0]), "graph 2 has no target"),
        (GraphClassifier, (rings(6), ["a"] * 6), "y has one class, 'a'$"),
        (GraphClassifier, (rings(6), None, NOBODY), "the validation mask selects no labeled graph"),
        (GraphRegressor, (rings(6), [0, np.nan, 1, 0, 1, 0]), "graph 1 has no target"),
        (GraphRegressor, (rings(2), [1.0, 2.0]), "only one graph is left for training"),
    ],
)
def test_invalid_targets_and_validation_sets(estimator, arguments, text):
    with pytest.raises(ValueError, match=text):
        estimator(**QUICK).fit(*arguments)


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        ([0, 6], r"X contains node 6, but the graph has 6 nodes \(0 to 5\)"),
        ([-1, 2], "X contains node -1"),
        ([0.0, 1.0], "must be node indices, integers"),
        ([True, False], "must be node indices, integers"),
        (X, "must be node indices, integers"),
        ([], r"0 sample\(s\)"),
        ([1, 1], "X contains a node twice"),
    ],
)
def test_invalid_node_indices(nodes, text):
    with pytest.raises(ValueError, match=text):
        NodeClassifier(graph=GRAPH, **QUICK).fit(nodes, [0, 1])


def test_a_graph_of_another_type():
    with pytest.raises(TypeError, match="a graph must be a torch_geometric Data, .* got str"):
        NodeClassifier(graph="cora", **QUICK).fit([0, 1], [0, 1])


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"lr": -1.0}, "optimizer.lr is -1.0, but it should be greater than 0"),
        ({"epochs": 0}, "train.epochs is 0"),
        ({"model": "tgn"}, "unknown model 'tgn'; did you mean tgnn"),
        ({"device": "gpu"}, "train.device is 'gpu'"),
        ({"random_state": "a"}, "cannot be used to seed"),
        ({"random_state": -1}, "train.seed is -1"),
        ({"validation_fraction": 1.0}, "validation_fraction is 1.0"),
        ({"batch_size": 2}, "train.batch_size needs train.num_neighbors"),
        ({"options": {"optimizer.lr": 0.1}}, "which is a parameter: use lr=..."),
        ({"options": {"train.seed": 0}}, "which is a parameter: use random_state=..."),
        ({"options": {"data.split": "public"}}, "has no effect on an estimator"),
        ({"options": {"optimizer.grad_clp": 1.0}}, "did you mean optimizer.grad_clip"),
        ({"options": {"model.mixx": "sum"}}, "did you mean model.mix"),
        ({"options": {"clip": 1.0}}, "options are written as section.key"),
    ],
)
def test_invalid_parameters(parameters, text):
    with pytest.raises(ValueError, match=text):
        NodeClassifier(**{**QUICK, **parameters}).fit(GRAPH, Y)


def test_graphs_that_differ_from_the_training_data():
    nodes, graphs = NodeClassifier(**QUICK).fit(GRAPH, Y), GraphClassifier(**QUICK).fit(pack(rings(6)))
    wide = Data(x=torch.eye(6), edge_index=torch.from_numpy(EDGES), edge_attr=torch.ones(5, 2))
    for model, new, text in (
        (nodes, (X[:, :3], EDGES), "X has 3 features, but NodeClassifier is expecting 6 features as input"),
        (nodes, wide, "X has 2 edge features, but NodeClassifier is expecting 0"),
        (nodes, (torch.eye(6).long(), EDGES), "The features of X are categorical .* was trained with num"),
        (graphs, [GRAPH], "X has 6 features, but GraphClassifier is expecting 2"),
    ):
        with pytest.raises(ValueError, match=text):
            model.predict(new)


@pytest.mark.parametrize(
    ("graphs", "kind", "text"),
    [
        ([], ValueError, "X has no graphs"),
        (rings(1)[0], TypeError, "X is one graph, but must be a list"),
        ((X, EDGES), TypeError, "X is one graph, but must be a list"),
        (7, TypeError, "X must be a sequence of graphs, got int"),
        ("graphs", TypeError, "X must be a sequence of graphs, got str"),
        ([*rings(3), "graph"], TypeError, "graph 3 of X: a graph must be"),
        ([*rings(3), (X, EDGES)], ValueError, "graph 3 of X: it has 6 features, but graph 0 has 2"),
        ([*rings(1), (CATEGORIES, EDGES[:, :1])], ValueError, "graph 1 of X: its features are torch.int64"),
        ([*rings(3), (X[:2], EDGES)], ValueError, "graph 3 of X: edge_index contains node 5"),
        ([(X * np.nan, EDGES)] * 3, ValueError, "Input X contains NaN"),
        ([(X, scipy.sparse.eye_array(6) * 0.5)], ValueError, "use edge_attr of shape"),
        ([*rings(1), pair(edge_attr=torch.ones(1, 1))], ValueError, "graph 1 of X: it has edge_attr, unlike graph 0"),
        ([pair(y=torch.ones(2))], ValueError, "graph 0 of X: its y has 2 values"),
        (GraphDataset({"num_nodes": [1, 1], "y": [0, 1]}), ValueError, "no edges"),
        (GraphDataset({"num_nodes": [1], "y": [0], "x": [[1.0]]}), ValueError, "no edges"),
    ],
)
def test_invalid_lists_of_graphs(graphs, kind, text):
    with pytest.raises(kind, match=text):
        GraphClassifier(**QUICK).fit(graphs)
