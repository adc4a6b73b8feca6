"""Node-level estimators train on every form of a graph and predict the user's labels."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.model_selection import train_test_split
from torch_geometric.data import Data

from tests.unit.estimators.conftest import as_networkx
from tgnn import NodeClassifier, NodeRegressor
from tgnn.data.catalog.embedded import digits, karate
from tgnn.estimators.targets import draw_holdout

QUICK = {"epochs": 8, "hidden": 8, "rank": 4, "random_state": 0}


def test_digits_are_read():
    data = digits()
    nodes = np.random.RandomState(0).permutation(data.num_nodes)
    model = NodeClassifier(graph=data, epochs=25, hidden=32, rank=8, random_state=0)
    assert model.fit(nodes[:900], data.y[nodes[:900]]) is model
    assert model.score(nodes[900:], data.y[nodes[900:]]) > 0.9
    assert model.n_features_in_ == 64
    assert model.classes_.tolist() == list(range(10))
    assert len(model.history_) == model.n_iter_ == 25
    assert {"epoch", "loss", "val_loss", "val_accuracy", "seconds"} <= model.history_[0].keys()
    assert model.history_[model.best_epoch_]["val_accuracy"] == max(line["val_accuracy"] for line in model.history_)


def test_prior_correction(club):
    held = np.arange(34) % 3 == 0
    y = np.where(held, 0, club.y)
    predictions = {}
    for correction in ("none", "validation"):
        model = NodeClassifier(**QUICK, options={"train.prior_correction": correction}).fit(club, y, validation=held)
        predictions[correction] = model.predict_proba(club), model.task_.log_prior_ratio
    odds = predictions["none"][0] * np.exp(predictions["validation"][1])
    assert predictions["none"][1] == ()
    assert predictions["validation"][1][0] > 0.2
    assert predictions["validation"][0] == pytest.approx(odds / odds.sum(1, keepdims=True), abs=1e-4)
    with pytest.raises(ValueError, match="needs a classification task"):
        NodeRegressor(**QUICK, options={"train.prior_correction": "validation"}).fit(club, np.arange(34) / 3)


def test_regression(planted):
    x, edges, y = planted
    model = NodeRegressor(graph=(x, edges), epochs=120, dropout=0.0, random_state=0).fit(np.arange(225), y[:225])
    assert model.score(np.arange(225, 300), y[225:]) > 0.8
    assert not hasattr(model, "classes_")
    assert not hasattr(model, "predict_proba")


def test_every_form_of_a_graph_gives_the_same(club):
    edges = club.edge_index
    adjacency = scipy.sparse.coo_array((np.ones(edges.size(1)), edges.numpy()), shape=(34, 34))
    forms = [
        club,
        (club.x, edges),
        (club.x.numpy().astype(np.float64), edges.numpy()),
        (club.x.tolist(), edges.tolist()),
        (club.x.numpy(), adjacency),
        (club.x.numpy(), adjacency.tocsr().astype(bool)),
        as_networkx(club, y=False),
        as_networkx(club, y=False).to_directed(),
    ]
    wanted = NodeClassifier(**QUICK).fit(club).predict_proba(club)
    for form in forms:
        assert np.array_equal(NodeClassifier(**QUICK).fit(form, club.y.numpy()).predict_proba(form), wanted)
        by_number = NodeClassifier(graph=form, **QUICK).fit(np.arange(34), club.y.numpy())
        assert np.array_equal(by_number.predict_proba(np.arange(34)), wanted)
    sparse = scipy.sparse.csr_array(club.x.numpy())
    # The input dropout of tgnn draws other masks for sparse features.
    same = {"epochs": 8, "hidden": 8, "random_state": 0, "model": "gcn"}
    wanted = NodeClassifier(**same).fit(club).predict_proba(club)
    for x in (sparse, sparse.tocoo(), club.x.to_sparse(), club.x.to_sparse_csr()):
        found = NodeClassifier(**same).fit((x, edges), club.y).predict_proba((x, edges))
        assert np.allclose(found, wanted, atol=1e-4)


def test_networkx_attributes_by_name(club):
    graph = as_networkx(club)
    wanted = NodeClassifier(**QUICK).fit(graph).predict_proba(graph)  # y is an attribute too
    other = networkx.relabel_nodes(graph, lambda node: f"person {node}")
    for _, attributes in other.nodes(data=True):
        x = attributes.pop("x")
        attributes |= {"a": x[:30], "b": x[30:33], "c": float(x[33]), "label": f"team {attributes.pop('y')}"}
    model = NodeClassifier(x_attribute=["a", "b", "c"], y_attribute="label", **QUICK).fit(other)
    assert np.array_equal(model.predict_proba(other), wanted)
    assert model.classes_.tolist() == [f"team {number}" for number in range(4)]


def test_edge_weights_are_used(club):
    weight = torch.rand(club.num_edges, generator=torch.Generator().manual_seed(0))
    edges = club.edge_index
    adjacency = scipy.sparse.coo_array((weight.numpy(), edges.numpy()), shape=(34, 34))
    graph = networkx.DiGraph(as_networkx(club))
    for (u, v), w in zip(edges.t().tolist(), weight.tolist()):
        graph.edges[u, v]["w"] = w
    weighted = club.clone()
    weighted.edge_weight = weight
    wanted = NodeClassifier(**QUICK).fit(weighted).predict_proba(weighted)
    x, y = club.x.numpy(), club.y
    assert np.array_equal(NodeClassifier(**QUICK).fit((x, adjacency), y).predict_proba((x, adjacency)), wanted)
    named = NodeClassifier(weight_attribute="w", **QUICK).fit(graph)
    assert np.array_equal(named.predict_proba(graph), wanted)
    assert not np.allclose(NodeClassifier(**QUICK).fit(club).predict_proba(club), wanted)


@pytest.mark.parametrize(
    "label",
    [lambda k: f"team {k}", lambda k: 10 * k, lambda k: k - 7.0, lambda k: np.str_(k)],
    ids=["text", "integers", "floats", "numpy text"],
)
def test_predictions_are_the_users_labels(club, label):
    y = [label(int(k)) for k in club.y]
    model = NodeClassifier(**{**QUICK, "epochs": 40}).fit(club, y)
    assert model.classes_.tolist() == sorted(set(y))
    guess, sure = model.predict(club), model.predict_proba(club)
    assert set(guess.tolist()) <= set(y)
    assert np.array_equal(guess, model.classes_[sure.argmax(1)])
    assert np.allclose(sure.sum(1), 1, atol=1e-5)
    assert model.score(club, y) > 0.5
    assert np.array_equal(
        guess, NodeClassifier(**{**QUICK, "epochs": 40}).fit(club).predict(club).choose(sorted(set(y)))
    )


@pytest.mark.parametrize("nothing", [-1, None, float("nan")])
def test_unlabeled_nodes_are_ignored(club, nothing):
    y = [nothing if node % 3 == 0 else int(club.y[node]) for node in range(34)]
    known = np.array([node for node in range(34) if node % 3])
    wanted = NodeClassifier(graph=club, **QUICK).fit(known, club.y[known]).predict_proba(known)
    model = NodeClassifier(**QUICK).fit(club, y)
    assert np.array_equal(model.predict_proba(club)[known], wanted)
    assert len(model.classes_) == 4
    guess = model.predict(club)
    assert model.score(club, y) == pytest.approx((guess[known] == club.y[known].numpy()).mean())


def test_unlabeled_text_and_numbers(club, planted):
    labels = [None if node % 5 == 0 else "ab"[int(club.y[node]) % 2] for node in range(34)]
    labels[5] = float("nan")
    assert NodeClassifier(**QUICK).fit(club, labels).classes_.tolist() == ["a", "b"]
    x, edges, y = planted
    wanted = NodeRegressor(graph=(x, edges), **QUICK).fit(np.arange(200), y[:200]).predict(np.arange(300))
    for nothing in (np.nan, None):
        some = [*y[:200], *[nothing] * 100]
        assert np.array_equal(NodeRegressor(**QUICK).fit((x, edges), some).predict((x, edges)), wanted)


@pytest.mark.parametrize("has_all_masks", [True, False])
def test_masks_of_the_graph_are_used(club, has_all_masks):
    """Labels outside of the masks have no effect, and ``score`` uses the test mask."""
    turn = torch.arange(34) % 4
    club.test_mask = turn == 3
    if has_all_masks:
        club.train_mask, club.val_mask = turn < 2, turn == 2
    model = NodeClassifier(**QUICK).fit(club)
    other = club.clone()
    other.y[other.test_mask] = 0
    for y in (None, other.y):
        assert np.array_equal(NodeClassifier(**QUICK).fit(other, y).predict_proba(club), model.predict_proba(club))
    if has_all_masks:
        held = NodeClassifier(graph=club, **QUICK).fit(*(v[turn < 3] for v in (np.arange(34), club.y, club.val_mask)))
        assert np.array_equal(held.predict_proba(club), model.predict_proba(club))
    right = torch.from_numpy(model.predict(club)) == club.y
    assert model.score(club) == pytest.approx(float(right[club.test_mask].float().mean()))
    assert model.score(club, club.y) == pytest.approx(float(right.float().mean()))


def test_few_labels_need_no_validation():
    """One labeled node of each class, as in the train_mask of the karate club."""
    data = karate()
    model = NodeClassifier(validation_fraction=0, epochs=100, random_state=0).fit(data)
    assert model.history_[model.best_epoch_]["val_accuracy"] == 1.0  # of the four
    assert model.score(data) > 0.4  # chance level: 0.25


def test_another_graph(club):
    model = NodeClassifier(**QUICK).fit(club)
    part = club.subgraph(torch.arange(10))
    assert model.predict(part).shape == (10,)
    assert model.predict((part.x, part.edge_index)).tolist() == model.predict(part).tolist()
    alone = (np.zeros((2, 34)), np.empty((2, 0)))
    assert model.predict_proba(alone).shape == (2, 4)


def test_numbers_of_nodes(club):
    model = NodeClassifier(graph=club, **QUICK).fit(np.arange(34))  # y is the graph's
    every = model.predict_proba(club)
    for nodes in ([3, 1, 3], np.array([[3], [1], [3]], dtype=np.uint8), torch.tensor([3, 1, 3])):
        assert np.array_equal(model.predict_proba(nodes), every[[3, 1, 3]])
    assert model.predict(range(34)).shape == (34,)


def test_integers_of_torch_are_categories(club):
    kinds = torch.arange(34) % 5
    model = NodeClassifier(**QUICK).fit(Data(x=kinds, edge_index=club.edge_index, y=club.y))
    assert model.n_features_in_ == 1
    assert model.shape_.features == (5,)
    assert NodeClassifier(**QUICK).fit((kinds.numpy()[:, None], club.edge_index), club.y).shape_.features == 1


def test_the_graph_is_not_changed(club):
    club.edge_attr = torch.rand(club.num_edges, 2)
    before = club.clone()
    NodeClassifier(graph=club, options={"data.features": "row-l2"}, **QUICK).fit(np.arange(34)).predict(club)
    assert before.keys() == club.keys()
    assert all(torch.equal(before[key], club[key]) for key in before.keys())  # noqa: SIM118


def test_sampled_training(club):
    options = {"train.num_neighbors": (3, 3)}
    assert NodeClassifier(**QUICK, batch_size=8, options=options).fit(club).score(club) > 0.2


def test_the_same_state_gives_the_same(club):
    def fitted(state):
        return NodeClassifier(**{**QUICK, "random_state": state}).fit(club).predict_proba(club)

    before = torch.get_rng_state()
    assert np.array_equal(fitted(0), fitted(0))
    assert np.array_equal(fitted(np.random.RandomState(1)), fitted(np.random.RandomState(1)))
    assert not np.array_equal(fitted(0), fitted(1))
    assert not np.array_equal(fitted(None), fitted(None))
    assert torch.equal(before, torch.get_rng_state())  # the global random state is unchanged


def test_verbose(club, capsys):
    NodeClassifier(**QUICK).fit(club)
    assert capsys.readouterr().out == ""
    NodeClassifier(**QUICK, verbose=2).fit(club)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 8
    assert lines[0].startswith("epoch 0: loss ")
    NodeClassifier(**{**QUICK, "epochs": 30}, verbose=1).fit(club)
    assert 5 < len(capsys.readouterr().out.splitlines()) < 15


# ---- the hold-out is stratified, and leaves one example of each class for training ------------------------------


@pytest.mark.parametrize("fraction", [0.01, 0.1, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("seed", range(5))
def test_shares_and_what_is_kept(fraction, seed):
    strata = np.random.RandomState(seed).choice(5, p=[0.5, 0.3, 0.15, 0.04, 0.01], size=300)
    held = draw_holdout(strata, fraction, seed)
    assert np.array_equal(draw_holdout(strata, fraction, seed), held)
    assert not np.array_equal(draw_holdout(strata, fraction, seed + 1), held)
    classes, sizes = np.unique(strata, return_counts=True)
    assert held.sum() == round(fraction * 300)
    for value, size in zip(classes, sizes):
        taken = held[strata == value].sum()
        assert taken < size
        assert abs(taken - fraction * (size - 1) * 300 / (300 - len(classes))) < 1.01  # one of each is set aside


@pytest.mark.parametrize("strata", [np.array([0] * 30 + [1] * 20 + [2] * 9 + [3]), np.arange(70) % 10])
def test_class_sizes_that_scikit_learn_rejects(strata):
    """This is why the hold-out is not scikit-learn's."""
    with pytest.raises(ValueError, match="too few|greater or equal to the number of classes"):
        train_test_split(strata, test_size=0.1, stratify=strata, random_state=0)
    held = draw_holdout(strata, 0.1, 0)
    assert held.sum() == round(0.1 * len(strata))
    assert set(strata[~held]) == set(strata)


def test_metric_class_weight_and_sample_weight(club):
    y = np.where(np.arange(34) < 4, "rare", "common")
    balanced = NodeClassifier(**QUICK, metric="macro-f1", class_weight="balanced").fit(club, y)
    assert "val_macro-f1" in balanced.history_[0]
    assert balanced.task_.class_weight[1] > 4 * balanced.task_.class_weight[0]
    model = NodeClassifier(**QUICK, class_weight={"rare": 3.0}).fit(club, y)
    assert model.task_.class_weight == (1.0, 3.0)
    # Weights of examples that differ by class only are class weights.
    weighted = NodeClassifier(**QUICK).fit(club, y, sample_weight=np.where(y == "rare", 3.0, 1.0))
    assert weighted.history_[0]["loss"] == pytest.approx(model.history_[0]["loss"])
    with pytest.raises(ValueError, match="class_weight contains 'odd'"):
        NodeClassifier(**QUICK, class_weight={"odd": 1.0}).fit(club, y)
    with pytest.raises(ValueError, match="one number for each of the 34 examples"):
        NodeClassifier(**QUICK).fit(club, y, sample_weight=[1.0])
    with pytest.raises(ValueError, match="at least one weight above 0"):
        NodeClassifier(**QUICK).fit(club, y, sample_weight=np.zeros(34))
    with pytest.raises(ValueError, match="cannot be used for a regression task. Use mae, rmse or r2"):
        NodeRegressor(**QUICK, metric="macro-f1").fit(club, np.arange(34.0))


def test_an_ensemble_averages_its_networks(club, planted, tmp_path):
    single = [NodeClassifier(**{**QUICK, "random_state": seed}) for seed in (0, 1)]
    held = np.arange(34) % 3 == 0
    members = [model.fit(club, validation=held).predict_proba(club) for model in single]
    ensemble = NodeClassifier(**QUICK, n_estimators=2).fit(club, validation=held)
    assert ensemble.predict_proba(club) == pytest.approx(np.mean(members, axis=0), abs=1e-5)
    assert ensemble.predict_std(club) == pytest.approx(np.std(members, axis=0, ddof=1), abs=1e-5)
    ensemble.save(tmp_path / "ensemble.safetensors")
    loaded = NodeClassifier.load(tmp_path / "ensemble.safetensors")
    assert np.array_equal(loaded.predict_proba(club), ensemble.predict_proba(club))
    x, edges, y = planted
    regressor = NodeRegressor(**QUICK, n_estimators=2).fit((x, edges), y)
    assert regressor.predict_std((x, edges)).shape == (300,)
    with pytest.raises(ValueError, match="set n_estimators to 2 or more"):
        single[0].predict_std(club)
    with pytest.raises(ValueError, match="n_estimators is 0, but must be a positive integer"):
        NodeClassifier(**QUICK, n_estimators=0).fit(club)
