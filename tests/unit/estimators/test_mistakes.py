"""Wrong inputs raise the exception types of scikit-learn, with a message that says what is wrong."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.exceptions import NotFittedError
from torch_geometric.data import Data

from tests.unit.estimators.conftest import as_networkx, rings
from tgnn import GraphClassifier, GraphRegressor, NodeClassifier, NodeRegressor
from tgnn.data.graph_dataset import GraphDataset, pack

QUICK = {"epochs": 2, "hidden": 4, "rank": 2, "random_state": 0}
X, EDGES, Y = np.eye(6), np.array([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]]), [0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize("kind", [NodeClassifier, NodeRegressor, GraphClassifier, GraphRegressor])
def test_a_parameter_with_a_typo(kind):
    with pytest.raises(TypeError, match=f"{kind.__name__} has no parameter 'epoch': did you mean epochs?"):
        kind(epoch=3)


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
        ((np.ones((3, 2)), [[0, 1], [1, 1], [2, 2]]), r"edge_index must have shape \[2, E\] .* got \[3, 2\]"),
        ((np.ones((3, 2)), [0, 1]), r"edge_index must have shape \[2, E\]"),
        ((np.ones(3), [[0], [1]]), "Expected 2D array"),
        ((np.ones((3, 0)), [[0], [1]]), r"X has 0 feature\(s\)"),
        ((np.ones((0, 3)), np.empty((2, 0))), r"0 node\(s\)"),
        ((np.array([[np.nan], [1]]), [[0], [1]]), "Input X contains NaN"),
        ((np.array([[1e300], [1]]), [[0], [1]]), "Input X contains infinity"),
        ((scipy.sparse.csr_array([[np.inf], [1]]), [[0], [1]]), "Input X contains infinity"),
        ((np.array([["a"], ["b"]]), [[0], [1]]), "X must contain numbers"),
        ((np.array([["a"], [None]], dtype=object), [[0], [1]]), "X must contain numbers"),
        ((np.array([[1j], [1]]), [[0], [1]]), "Complex data not supported"),
        ((np.ones((3, 2)), scipy.sparse.eye_array(4)), r"shape \[4, 4\], but the graph has 3 nodes"),
        ((torch.tensor([[-2], [1]]), [[0], [1]]), "contains category -2"),
        (Data(edge_index=torch.tensor([[0], [1]])), "no node features x"),
        (Data(x=torch.ones(3, 1)), "no edge_index"),
        (
            Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0], [1]]), edge_attr=torch.ones(2, 1)),
            "edge_attr has 2 rows, but the graph has 1 edges",
        ),
        (
            Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0], [1]]), edge_weight=torch.tensor([torch.nan])),
            "edge_weight contains NaN",
        ),
        (networkx.path_graph(3), r"node 0 has no attribute 'x' \(it has none\): set one, such as graph.nodes"),
    ],
)
def test_invalid_graphs(graph, text):
    with pytest.raises(ValueError, match=text):
        NodeClassifier(**QUICK).fit(graph, [0, 1, 0])
    with pytest.raises(ValueError, match=text):
        NodeClassifier(graph=graph, **QUICK).fit([0, 1], [0, 1])


def test_nodes_of_different_width():
    graph = networkx.path_graph(3)
    networkx.set_node_attributes(graph, {0: [1.0], 1: [1.0, 2.0], 2: [1.0]}, "x")
    with pytest.raises(ValueError, match="must have the same shape"):
        NodeClassifier(**QUICK).fit(graph, [0, 1, 0])


def test_edge_weights_above_1(club):
    club.edge_weight = torch.full((club.num_edges,), 3.0)
    with pytest.raises(ValueError, match="an edge weight is 3, but must lie between 0"):
        NodeClassifier(**QUICK).fit(club)


@pytest.mark.parametrize(
    ("y", "text"),
    [
        ([0, 1, 0], r"inconsistent numbers of samples: \[6, 3\]"),
        ([1] * 6, r"needs at least two classes, but y has one class, 1 \(-1 means unlabeled\)"),
        ([-1, 1] * 3, r"y has one class, 1 \(-1 means unlabeled\)"),
        ([None] * 6, "y has no labels"),
        ([0.5, 1.5, 2.5, 0.1, 0.2, 0.3], "Unknown label type: continuous"),
        ([0.0, np.inf, 0.0, 1.0, 1.0, 1.0], "infinity"),
        (["a", 1, "b", 2, "a", 1], "only strings or only numbers, got int, str"),
        (np.ones((6, 2), dtype=int), "1d array"),
    ],
)
def test_invalid_labels(y, text):
    with pytest.raises(ValueError, match=text):
        NodeClassifier(**QUICK).fit((X, EDGES), y)


@pytest.mark.parametrize(
    ("y", "text"),
    [
        ([1.0, 2.0], r"inconsistent numbers of samples: \[6, 2\]"),
        (["a"] * 6, "y must contain numbers for a regression"),
        ([1.0, np.inf] * 3, "Input y contains infinity"),
        ([np.nan] * 6, "0 labeled examples are too few to hold out a validation set"),
        (np.ones((6, 2)), "1d array"),
    ],
)
def test_invalid_numbers(y, text):
    with pytest.raises(ValueError, match=text):
        NodeRegressor(**QUICK).fit((X, EDGES), y)


def test_no_targets_at_all():
    with pytest.raises(ValueError, match="the graph has no targets: pass y"):
        NodeClassifier(**QUICK).fit((X, EDGES))
    with pytest.raises(ValueError, match="the graphs have no targets: pass y"):
        GraphClassifier(**QUICK).fit([(X, EDGES)])


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
        NodeClassifier(graph=(X, EDGES), **QUICK).fit(nodes, [0, 1])


def test_node_indices_without_a_graph():
    with pytest.raises(ValueError, match=r"pass their graph as NodeClassifier\(graph=...\)"):
        NodeClassifier(**QUICK).fit([0, 1], [0, 1])
    with pytest.raises(ValueError, match="X must be a torch_geometric Data"):
        NodeClassifier(**QUICK).fit(X, Y)
    with pytest.raises(TypeError, match="a graph must be a torch_geometric Data, .* got str"):
        NodeClassifier(graph="cora", **QUICK).fit([0, 1], [0, 1])


def test_another_width():
    model = NodeClassifier(**QUICK).fit((X, EDGES), Y)
    with pytest.raises(ValueError, match="X has 3 features, but NodeClassifier is expecting 6 features as input"):
        model.predict((X[:, :3], EDGES))
    wide = Data(x=torch.eye(6), edge_index=torch.from_numpy(EDGES), edge_attr=torch.ones(5, 2))
    with pytest.raises(ValueError, match="X has 2 edge features, but NodeClassifier is expecting 0"):
        model.predict(wide)
    with pytest.raises(
        ValueError, match="The features of X are categorical .*, but NodeClassifier was trained with num"
    ):
        model.predict((torch.eye(6, dtype=torch.int64), EDGES))


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
        (
            [*rings(1), (torch.ones(2, 2).long(), EDGES[:, :1])],
            ValueError,
            "graph 1 of X: its features are torch.int64",
        ),
        ([*rings(3), (X[:2], EDGES)], ValueError, "graph 3 of X: edge_index contains node 5"),
        ([*rings(3), (X * np.nan, EDGES)], ValueError, "graph 3 of X: Input X contains NaN"),
        ([(X, scipy.sparse.eye_array(6) * 0.5)], ValueError, "use edge_attr of shape"),
        (
            [*rings(1), Data(x=torch.ones(2, 2), edge_index=torch.tensor([[0], [1]]), edge_attr=torch.ones(1, 1))],
            ValueError,
            "graph 1 of X: it has edge_attr, unlike graph 0",
        ),
        (
            [Data(x=torch.ones(2, 2), edge_index=torch.tensor([[0], [1]]), y=torch.ones(2))],
            ValueError,
            "graph 0 of X: its y has 2 values",
        ),
        (GraphDataset({"num_nodes": [1, 1], "y": [0, 1]}), ValueError, "no node features x"),
        (GraphDataset({"num_nodes": [1], "y": [0], "x": [[1.0]]}), ValueError, "no edges"),
    ],
)
def test_invalid_lists_of_graphs(graphs, kind, text):
    with pytest.raises(kind, match=text):
        GraphClassifier(**QUICK).fit(graphs)


def test_targets_of_graphs():
    graphs = rings(6)
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[6, 2\]"):
        GraphClassifier(**QUICK).fit(graphs, [0, 1])
    with pytest.raises(ValueError, match="graph 2 has no target"):
        GraphClassifier(**QUICK).fit(graphs, [0, 1, None, 0, 1, 0])
    with pytest.raises(ValueError, match="y has one class, 'a'$"):
        GraphClassifier(**QUICK).fit(graphs, ["a"] * 6)
    with pytest.raises(ValueError, match="graph 1 has no target"):
        GraphRegressor(**QUICK).fit(graphs, [0, np.nan, 1, 0, 1, 0])
    with pytest.raises(ValueError, match="only one graph is left for training"):
        GraphRegressor(**QUICK).fit(graphs[:2], [1.0, 2.0])
    with pytest.raises(ValueError, match="X has 6 features, but GraphClassifier is expecting 2"):
        GraphClassifier(**QUICK).fit(pack(graphs)).predict([(X, EDGES)])


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
def test_parameters(parameters, text):
    with pytest.raises(ValueError, match=text):
        NodeClassifier(**{**QUICK, **parameters}).fit((X, EDGES), Y)


def test_validation(club):
    with pytest.raises(ValueError, match=r"validation must be a boolean array of shape \[34\]"):
        NodeClassifier(**QUICK).fit(club, validation=[1, 2])
    with pytest.raises(ValueError, match="the validation mask selects no labeled node"):
        NodeClassifier(**QUICK).fit(club, validation=np.zeros(34, dtype=bool))
    with pytest.raises(ValueError, match="all labeled examples are in the validation set"):
        NodeClassifier(**QUICK).fit(club, validation=np.ones(34, dtype=bool))
    with pytest.raises(ValueError, match="the validation mask selects no graph"):
        GraphClassifier(**QUICK).fit(rings(4), validation=np.zeros(4, dtype=bool))
    with pytest.raises(ValueError, match="4 labeled examples of 4 classes are too few"):
        NodeClassifier(**QUICK).fit(as_networkx(club, y=False), [0, 1, 2, 3, *[-1] * 30])
    club.train_mask = torch.ones(34, 10, dtype=torch.bool)
    with pytest.raises(ValueError, match="train_mask has 10 columns, one for each split"):
        NodeClassifier(**QUICK).fit(club)
