"""Tables of many graphs: reading, new data, conversion and prediction."""

from __future__ import annotations

import json
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import polars as pl
import pytest
import torch
from tests.unit.data.tables import write

from tgnn.data.convert import write as write_converted
from tgnn.data.load import load
from tgnn.data.readers.detect import read_path
from tgnn.training.config import make_config
from tgnn.training.predict import predict
from tgnn.training.prepare import hold_out_test_labels
from tgnn.training.train import train_run

FILES = {
    "graphs_csv": "id,label,split\nwater,good,train\nvoid,bad,val\nsalt,good,test\n",
    "nodes_csv": "graph,id,kind,size\nsalt,1,Na,5\nwater,1,O,1\nwater,2,H,2\nwater,3,H,3\nsalt,2,Cl,6\n",
    "edges_csv": "graph,source,target,weight,years\nwater,1,2,0.5,7\nsalt,2,1,1,8\nwater,3,1,0.25,9\n",
}


def test_graphs_nodes_and_edges(tmp_path):
    graphs, report = read_path(write(tmp_path, **FILES))
    assert graphs.graph_id.tolist() == ["water", "void", "salt"]
    water, void, salt = graphs
    assert water.x.tolist() == [[0, 0, 0, 1, 1], [0, 1, 0, 0, 2], [0, 1, 0, 0, 3]]  # Cl, H, Na, O, size
    assert water.edge_index.t().tolist() == [[1, 0], [2, 0], [0, 1], [0, 2]]
    assert water.edge_weight.tolist() == [0.5, 0.25, 0.5, 0.25]
    assert water.edge_attr.flatten().tolist() == [7, 9, 7, 9]
    assert salt.x[:, 4].tolist() == [5, 6]
    assert salt.edge_index.tolist() == [[1, 0], [0, 1]]
    assert (void.num_nodes, void.num_edges) == (0, 0)
    assert graphs.y.tolist() == [1, 0, 1]
    split = graphs.stored_split()
    assert [part.tolist() for part in (split.train, split.val, split.test)] == [[0], [1], [2]]
    counts = {"graphs": 3, "nodes": 5, "edges": 6, "features": 5, "edge features": 1}
    counts |= {"task": "classification", "classes": 2, "labeled": 3, "train": 1, "val": 1, "test": 1}
    assert report.statistics == counts
    assert [str(f).split(": ")[0] for f in report.findings if f.code == "empty-graph"] == ["graphs.csv, line 3"]
    batch = graphs.batch(torch.tensor([2, 0]))
    assert batch.edge_weight.tolist() == [1, 1, 0.5, 0.25, 0.5, 0.25]


def test_new_graphs_are_encoded_like_the_training_data(tmp_path):
    graphs, _ = read_path(write(tmp_path, **FILES))
    encoding = json.loads(json.dumps(graphs.encoding))
    write(
        tmp_path,
        graphs_csv="id\nnew\n",
        nodes_csv="id,size,kind,graph\na,1,H,new\nb,2,Xe,new\n",
        edges_csv="source,target,years,graph,weight\na,b,1,new,1\n",
    )
    new, report = read_path(tmp_path, encoding=encoding)
    assert new[0].x.tolist() == [[0, 1, 0, 0, 1], [0, 0, 0, 0, 2]]
    assert new.y is None
    assert "unknown-category" in [f.code for f in report.findings]


def test_edges_without_a_graph_are_found_by_their_ends(tmp_path):
    nodes = "id,graph,a\nx,1,0\ny,1,1\nz,2,2\n"
    graphs = "id,label,heat\n1,0.5,20\n2,1.5,30\n"
    write(tmp_path, graphs_csv=graphs, nodes_csv=nodes, edges_csv="source,target\nx,y\n")
    graphs, report = read_path(tmp_path)
    assert graphs.graph_id.tolist() == [1, 2]
    assert graphs[0].num_edges == 2
    assert "column 'heat' ignored; only nodes and edges have features" in str(report)


@hypothesis.given(
    sizes=st.lists(st.integers(0, 5), min_size=1, max_size=6), seed=st.integers(0, 1000), undirected=st.booleans()
)
@hypothesis.settings(deadline=None, max_examples=30)
def test_graphs_that_are_written_are_read_again(tmp_path_factory, sizes, seed, undirected):
    """Rows in any order: graphs, nodes within a graph and edges come back as they were."""
    generator = torch.Generator().manual_seed(seed)
    nodes = [(g, i, float(10 * g + i)) for g, size in enumerate(sizes) for i in range(size)]
    drawn = [torch.randint(n, (2, 2 * n), generator=generator) if n else torch.empty(2, 0) for n in sizes]
    pairs = [{(a, b) for a, b in edges.long().t().tolist() if a != b} for edges in drawn]
    edges = [(g, a, b) for g, some in enumerate(pairs) for a, b in some]
    shuffled = [edges[i] for i in torch.randperm(len(edges), generator=generator)]
    by_node = sorted(nodes, key=lambda node: (node[1], node[0]))  # the nodes of a graph stay in order
    folder = tmp_path_factory.mktemp("graphs")
    in_edges = {"graph": pl.Int64, "source": pl.Int64, "target": pl.Int64}
    in_nodes = {"graph": pl.Int64, "id": pl.Int64, "a": pl.Float64}
    write(
        folder,
        graphs_csv=pl.DataFrame({"id": range(len(sizes)), "label": [0.5] * len(sizes)}).write_csv(),
        nodes_csv=pl.DataFrame(by_node, schema=in_nodes, orient="row").write_csv(),
        edges_csv=pl.DataFrame(shuffled, schema=in_edges, orient="row").write_csv(),
        schema_yaml={"undirected": undirected},
    )
    found, _ = read_path(folder)
    for g, graph in enumerate(found):
        if nodes:
            assert graph.x.flatten().tolist() == [10 * g + i for i in range(sizes[g])]
        expected = pairs[g] | {(b, a) for a, b in pairs[g]} if undirected else pairs[g]
        assert graph.edge_index.t().tolist() == [list(p) for p in sorted(expected, key=lambda p: p[::-1])]


# ---- training, conversion and prediction ------------------------------------------------------------------------


def many(folder: Path, count: int = 30, labels: bool = True, kinds: str = "007") -> Path:
    """Write paths of three nodes. The code of the nodes determines the label."""
    folder.mkdir()
    label = [f",{'xy'[i % 2]}" if labels else "" for i in range(count)]
    code = [kinds if i % 2 else "012" for i in range(count)]
    nodes = "".join(f"g{i},{j},{code[i] if j else '003'},{j}\n" for i in range(count) for j in range(3))
    edges = "".join(f"g{i},{j},{j + 1},0.5\n" for i in range(count) for j in range(2))
    return write(
        folder,
        graphs_csv=("id,label\n" if labels else "id\n") + "".join(f"g{i}{label[i]}\n" for i in range(count)),
        nodes_csv="graph,id,code,size\n" + nodes,
        edges_csv="graph,source,target,weight\n" + edges,
        schema_yaml="nodes: {features: {code: categorical}}",
    )


def test_new_graphs_without_labels_are_predicted(tmp_path, caplog):
    own = many(tmp_path / "own")
    write_converted(load(own), tmp_path / "own.npz")
    for name in ("own", "own.npz"):
        settings = {"data": {"name": str(tmp_path / name)}, "train": {"epochs": 2, "device": "cpu"}}
        train_run(make_config(settings), tmp_path / f"run {name}")
    new = many(tmp_path / "new", 5, labels=False, kinds="099")
    one, other = (predict(tmp_path / f"run {name}", str(new), device="cpu").table() for name in ("own", "own.npz"))
    assert one.equals(other)
    assert one["id"].to_list() == [f"g{i}" for i in range(5)]
    assert set(one["prediction"]) <= {"x", "y"}
    assert "lines 6, 7, 12, 13: column 'code' has unknown categories, not in the training data: '099'" in caplog.text
    assert predict(tmp_path / "run own.npz", device="cpu").ids == [f"g{i}" for i in range(30)]


def test_graphs_without_labels_can_be_loaded(tmp_path):
    graphs = load(many(tmp_path / "new", 5, labels=False))
    assert graphs.y is None
    assert not hasattr(graphs, "split")
    with pytest.raises(ValueError, match="has no labels to train on"):
        hold_out_test_labels(graphs, None)
