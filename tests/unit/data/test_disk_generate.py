"""Generated graphs: sizes, degrees, the equation of the labels, and reproducibility."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tgnn.data import load
from tgnn.data.on_disk import DiskGraph
from tgnn.data.on_disk import generate as generating
from tgnn.data.on_disk.generate import _Plan, generate


@pytest.fixture(scope="module")
def graph(tmp_path_factory) -> DiskGraph:
    folder = tmp_path_factory.mktemp("generated") / "graph"
    generate(folder, 20_000, 400_000, features=12, classes=10, seed=3)
    return load(folder)


def test_sizes_and_split(graph):
    assert (graph.num_nodes, graph.x.shape, graph.info.outputs) == (20_000, (20_000, 12), 10)
    assert 0.9 * 400_000 < graph.num_edges <= 400_000
    assert [len(part) for part in (graph.split.train, graph.split.val, graph.split.test)] == [1600, 400, 18_000]
    assert graph.split.name == "generated"
    assert len(graph.y.unique()) == 10
    assert graph.y.bincount().max() < 0.3 * 20_000


def test_edges(graph):
    """The graph is undirected without self-loops and duplicates, has hubs, and connects nodes of the same class."""
    source, target = graph.to_memory().edge_index
    keys, back = target * 20_000 + source, source * 20_000 + target
    assert torch.equal(keys.unique(), keys)
    assert torch.equal(back.sort().values, keys)
    assert not (source == target).any()
    degree = graph.in_edges.ptr.diff().double()
    assert degree.max() > 30 * degree.mean()
    top = degree.sort(descending=True).values[:200]
    exponent = 1 + 200 / (top / top[-1]).log().sum()  # Hill's estimate of gamma
    assert 2 < exponent < 3.5
    same_class = (graph.y[source] == graph.y[target]).double().mean()
    chance = ((graph.y.bincount() / graph.num_nodes) ** 2).sum()
    assert same_class > 1.5 * chance


def test_labels_follow_the_equation(graph):
    """The equation, written out with a product, from the features of the neighbors only."""
    plan = _Plan(20_000, 400_000, 12, 10, 3)
    turned = graph.rows_between(0, 20_000).numpy().astype(np.float64) @ plan.turn.T
    z = 1 + turned[:, : generating.FACTORS]
    right = 0
    for v in range(500):
        near = [v, *graph.in_edges.index[graph.in_edges.ptr[v] : graph.in_edges.ptr[v + 1]].tolist()]
        geometric = np.exp(np.log(z[near]).sum(axis=0) / len(near))
        score = (np.log(geometric) - plan.middle) @ plan.mix.T
        right += int(np.argmax(score) == graph.y[v])
    assert right > 495  # float32 decides the rest


def test_the_seed_determines_the_graph(tmp_path, graph):
    generate(tmp_path / "again", 20_000, 400_000, features=12, classes=10, seed=3)
    assert DiskGraph(tmp_path / "again").hash == graph.hash
    generate(tmp_path / "other", 20_000, 400_000, features=12, classes=10, seed=4)
    assert DiskGraph(tmp_path / "other").hash != graph.hash


@pytest.mark.parametrize(
    ("sizes", "message"), [((100, 10, 4, 47), "47 classes need at least 376 nodes"), ((100, 10, 1, 3), "features is 1")]
)
def test_invalid_sizes(tmp_path, sizes, message):
    with pytest.raises(ValueError, match=message):
        generate(tmp_path / "graph", *sizes)
    assert not list(tmp_path.iterdir())
