"""The estimators are scikit-learn's: its own checks, cross-validation, grid search, pipelines."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import sklearn.utils.estimator_checks as checks
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

from tests.unit.estimators.conftest import rings
from tgnn import GraphClassifier, GraphRegressor, NodeClassifier, NodeRegressor
from tgnn.data.catalog.embedded import digits

ALL = [NodeClassifier, NodeRegressor, GraphClassifier, GraphRegressor]
QUICK = {"epochs": 4, "hidden": 8, "rank": 4, "random_state": 0}

CHECKS = [
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_estimators_unfitted",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_set_params",
    "check_valid_tag_types",
]
"""Checks that do not call ``fit`` with a table. The samples of these estimators are nodes and graphs."""


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("kind", ALL)
def test_checks_of_scikit_learn(kind, name):
    if not hasattr(checks, name):
        pytest.skip(f"this scikit-learn has no {name}")
    getattr(checks, name)(kind.__name__, kind())


@pytest.mark.parametrize("kind", ALL)
def test_made_without_arguments(kind):
    checks.check_parameters_default_constructible(kind.__name__, kind())
    assert is_classifier(kind()) == ("Classifier" in kind.__name__)
    assert is_regressor(kind()) == ("Regressor" in kind.__name__)


def test_clone_and_parameters(club):
    model = NodeClassifier(graph=club, rank=3, options={"model.mix": "scalar"})
    twin = clone(model)
    assert twin is not model
    assert twin.graph is club  # not copied: it may be large
    assert twin.get_params() == model.get_params()
    assert twin.set_params(rank=5).rank == 5
    assert model.rank == 3
    assert not hasattr(clone(model.fit(range(34))), "model_")
    assert "rank=3" in repr(model)
    with pytest.raises(ValueError, match="Invalid parameter 'ranks'"):
        model.set_params(ranks=1)


def test_options_and_parameters_reach_the_model(club):
    options = {"model.mix": "scalar", "optimizer.schedule": "cosine", "train.threads": 1}
    model = NodeClassifier(hidden=np.int64(5), layers=3, lr=0.02, weight_decay=0.1, options=options, epochs=2).fit(club)
    config = model.config_
    assert (config.model.hidden_channels, config.model.num_layers, config.model.arguments["mix"]) == (5, 3, "scalar")
    assert (config.optimizer.lr, config.optimizer.weight_decay, config.optimizer.schedule) == (0.02, 0.1, "cosine")
    assert config.model.arguments["factors"] == "weighted"  # of the default recipe
    assert "a_high/gnn.convs.0" in model.history_[0]


def test_grid_search_over_nodes():
    data = digits()
    nodes = np.arange(400)
    search = GridSearchCV(
        NodeClassifier(graph=data, **{**QUICK, "epochs": 12}), {"rank": [0, 8]}, cv=3, error_score="raise"
    )
    search.fit(nodes, data.y[:400].numpy())
    assert search.best_params_["rank"] in (0, 8)
    assert search.best_estimator_.graph is data
    assert search.score(np.arange(400, 600), data.y[400:600].numpy()) > 0.5
    assert search.predict([[400], [401]]).shape == (2,)


def test_folds_do_not_see_the_labels_of_others(club):
    """Predictions for a fold do not depend on its labels, although its nodes are in the graph."""
    y = np.random.RandomState(0).randint(2, size=34)
    model = NodeClassifier(graph=club, **QUICK)
    other = y.copy()
    other[17:] = 1 - other[17:]
    folds = [(np.arange(17, 34), np.arange(17)), (np.arange(17), np.arange(17, 34))]
    one, two = (
        cross_val_predict(model, np.arange(34), labels, cv=folds, method="predict_proba") for labels in (y, other)
    )
    assert np.array_equal(one[17:], two[17:])
    assert not np.array_equal(one[:17], two[:17])


def test_cross_validation_by_metrics(club, planted):
    model = NodeClassifier(graph=club, **QUICK)
    y = (club.y.numpy() > 0).astype(int)
    for scoring in ("roc_auc", "neg_log_loss", "f1_macro"):
        assert np.isfinite(cross_val_score(model, np.arange(34), y, cv=2, scoring=scoring, error_score="raise")).all()
    x, edges, y = planted
    model = NodeRegressor(graph=(x, edges), epochs=60, dropout=0.0, random_state=0)
    assert cross_val_score(model, np.arange(300), y, cv=3, error_score="raise").min() > 0.5


def test_last_step_of_a_pipeline(club):
    plain = NodeClassifier(graph=club, **QUICK).fit(np.arange(34), club.y.numpy())
    pipe = Pipeline([("column", FunctionTransformer(lambda nodes: nodes.reshape(-1, 1))), ("model", clone(plain))])
    pipe.fit(np.arange(34), club.y.numpy())
    assert np.array_equal(pipe.predict_proba(np.arange(34)), plain.predict_proba(np.arange(34)))
    assert clone(pipe).set_params(model__rank=2).get_params()["model__rank"] == 2
    assert np.isfinite(cross_val_score(pipe, np.arange(34), club.y.numpy() % 2, cv=2, error_score="raise")).all()


def test_pipeline_of_graphs_with_grid_search_and_validation():
    def doubled(graphs):
        return [graph.clone().update({"x": graph.x * 2}) for graph in graphs]

    graphs = rings(24)
    y = np.array([int(graph.y) for graph in graphs])
    pipe = make_pipeline(FunctionTransformer(doubled), GraphClassifier(**{**QUICK, "layers": 2}))
    search = GridSearchCV(pipe, {"graphclassifier__rank": [2, 4]}, cv=2, error_score="raise")
    search.fit(graphs, y, graphclassifier__validation=np.arange(24) % 4 < 2)  # divided together with the graphs
    assert search.predict(graphs).shape == (24,)


def test_pickled(club):
    model = NodeClassifier(graph=club, **QUICK).fit(range(34))
    again = pickle.loads(pickle.dumps(model))
    check_is_fitted(again)
    assert np.array_equal(again.predict_proba(range(34)), model.predict_proba(range(34)))


@pytest.mark.parametrize("estimator", ALL)
def test_every_parameter_and_fitted_attribute_is_documented(estimator):
    parameters, attributes = estimator.__doc__.split("Attributes:\n")
    for name in estimator().get_params():
        assert f"\n        {name}: " in parameters, name
    for name in ("n_features_in_", "model_", "history_", "n_iter_", "best_epoch_", "config_"):
        assert f"        {name}: " in attributes, name
    assert ("        classes_: " in attributes) == is_classifier(estimator())
