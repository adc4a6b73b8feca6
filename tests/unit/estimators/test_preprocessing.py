"""Estimators encode features as the commands encode tables."""

from __future__ import annotations

import networkx
import numpy as np
import pandas
import polars as pl
import pytest
import torch
from torch_geometric.data import Data

import tgnn
from tgnn import GraphClassifier, NodeClassifier

LABELS = np.arange(40) % 2
EDGES = np.array([np.arange(40), (np.arange(40) + 2) % 40])
FRAME = pl.DataFrame(
    {
        "height": [None, *(170.0 + 9 * (i % 2) + i / 9 for i in range(1, 40))],
        "town": ["Rome" if i % 3 else "Oslo" for i in range(40)],
        "pay": [f"{1 + i % 2},{500 + i}" for i in range(40)],
    }
)
QUICK = {"hidden": 8, "epochs": 5, "random_state": 0}


def test_a_frame_of_mixed_types_is_encoded_as_a_table_is(tmp_path, caplog):
    model = NodeClassifier(**QUICK).fit((FRAME, EDGES), LABELS)
    FRAME.with_columns(id=pl.int_range(40), label=pl.Series(LABELS)).write_csv(tmp_path / "nodes.csv")
    pl.DataFrame({"source": EDGES[0], "target": EDGES[1]}).write_csv(tmp_path / "edges.csv")
    data = tgnn.data.load(tmp_path)
    assert model.encoding_["nodes"] == data.encoding["nodes"]
    assert model.n_features_in_ == data.x.size(1) == 4
    assert "column 'height' has a missing number" in caplog.text
    model.save(tmp_path / "model.safetensors")
    loaded = NodeClassifier.load(tmp_path / "model.safetensors")
    wanted = model.predict_proba((FRAME, EDGES))
    other = FRAME.select(extra=pl.lit(1), town="town", pay="pay", height="height")
    np.testing.assert_array_equal(loaded.predict_proba((other, EDGES)), wanted)
    unknown = FRAME.with_columns(town=pl.lit("Paris"))
    assert np.isfinite(model.predict_proba((unknown, EDGES))).all()
    assert "unknown categories, not in the training data: 'Paris'" in caplog.text
    with pytest.raises(ValueError, match="column 'pay' of the training data is missing"):
        model.predict((FRAME.drop("pay"), EDGES))


def test_pandas_frames_are_encoded_as_polars_frames_are(caplog):
    wanted = NodeClassifier(**QUICK).fit((FRAME, EDGES), LABELS)
    nodes = pandas.DataFrame(FRAME.to_dict(as_series=False), index=range(40, 0, -1))  # the index is not used
    edges = pandas.DataFrame(EDGES.T, columns=["source", "target"])
    kinds = {"height": "Float64", "town": "category", "pay": "string"}
    for frame in (nodes, nodes.astype(kinds), nodes.astype({"height": object})):
        model = NodeClassifier(**QUICK).fit((frame, edges), pandas.Series(LABELS, index=frame.index))
        assert model.encoding_ == wanted.encoding_
        np.testing.assert_array_equal(model.predict_proba((frame, edges)), wanted.predict_proba((FRAME, EDGES)))
    assert "unknown categories" not in caplog.text
    other = nodes.assign(town=pandas.NA, height=180)
    assert np.isfinite(model.predict_proba((other, edges))).all()
    with pytest.raises(ValueError, match="the data frame has two columns 'town'; rename one of them"):
        model.predict((pandas.concat([nodes, nodes["town"]], axis=1), edges))
    with pytest.raises(ValueError, match=r"data frame of two columns, got \[3, 40\]"):
        model.predict((nodes, edges.assign(weight=1)))


def test_scales_do_not_matter_and_gaps_are_filled():
    x = np.random.default_rng(0).normal(size=(40, 3)) + LABELS[:, None]
    model = NodeClassifier(**QUICK).fit((x, EDGES), LABELS)
    scaled = NodeClassifier(**QUICK).fit((1000 * x + 5000, EDGES), LABELS)
    found, wanted = scaled.predict_proba((1000 * x + 5000, EDGES)), model.predict_proba((x, EDGES))
    np.testing.assert_allclose(found, wanted, atol=1e-3)
    gap = x.copy()
    gap[3, 1] = np.nan
    assert np.isfinite(model.predict_proba((gap, EDGES))).all()
    raw = NodeClassifier(**QUICK, standardize=False).fit((x, EDGES), LABELS)
    assert not np.allclose(raw.predict_proba((x, EDGES)), wanted)


def test_reverse_edges_are_added_unless_the_graph_is_directed():
    x, both = np.eye(40), np.concatenate([EDGES, EDGES[::-1]], axis=1)
    one, two = (NodeClassifier(**QUICK).fit((x, edges), LABELS).predict_proba((x, edges)) for edges in (EDGES, both))
    np.testing.assert_allclose(one, two, atol=1e-6)
    directed = NodeClassifier(**QUICK, undirected=False).fit((x, EDGES), LABELS)
    assert not np.allclose(directed.predict_proba((x, EDGES)), one)


def test_nodes_without_features_have_their_degree():
    graphs = [networkx.star_graph(5 + i) if i % 2 else networkx.path_graph(5 + i) for i in range(20)]
    model = GraphClassifier(**QUICK, batch_size=8).fit(graphs, LABELS[:20])
    assert (model.n_features_in_, list(model.encoding_)) == (1, ["degree"])
    assert model.predict([networkx.star_graph(99)]).shape == (1,)  # a degree that no training graph has
    data = Data(edge_index=torch.from_numpy(EDGES), num_nodes=40)
    assert NodeClassifier(**QUICK).fit(data, LABELS).predict(data).shape == (40,)
