"""TU text files: small ones made here, and the real ones as PyG reads them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch_geometric.io import read_tu_data

from tgnn.data.catalog import CATALOG
from tgnn.data.readers.detect import read_path
from tgnn.data.readers.tu import read_tu

FILES = {
    "A": "1, 2\n2, 1\n1, 2\n4, 4\n3, 4\n4, 3\n",  # an edge twice, a self-loop
    "graph_indicator": "1\n1\n2\n2\n2\n",
    "graph_labels": "-1\n1\n",
    "node_labels": "3\n5\n3\n3\n4\n",
    "edge_labels": "0\n0\n0\n1\n1\n1\n",
}


def write(folder: Path, **changes: str | None) -> None:
    for part, text in (FILES | changes).items():
        if text is not None:
            (folder / f"TOY_{part}.txt").write_text(text)


def test_labels_become_classes_and_one_hot_features(tmp_path):
    write(tmp_path)
    first, second = read_tu(tmp_path, "TOY")
    assert first.edge_index.tolist() == [[0, 1], [1, 0]]
    assert second.edge_index.tolist() == [[0, 1], [1, 0]]
    assert second.edge_attr.tolist() == [[0, 1], [0, 1]]
    assert first.x.tolist() == [[1, 0, 0], [0, 0, 1]]
    assert second.num_nodes == 3
    assert [first.y.item(), second.y.item()] == [0, 1]


def test_new_files_are_encoded_as_the_training_data(tmp_path):
    write(tmp_path)
    known = json.loads(json.dumps(read_tu(tmp_path, "TOY").encoding))
    assert known["target"]["classes"] == [-1, 1]
    write(tmp_path, node_labels="4\n5\n5\n5\n4\n", graph_labels="1\n7\n")
    new, _ = read_path(tmp_path, encoding=known)
    assert new[0].x.tolist() == [[0, 1, 0], [0, 0, 1]]
    assert new.y.tolist() == [1, -1]
    assert new.encoding["nodes"] == known["nodes"]
    write(tmp_path, node_labels="4\n5\n6\n5\n4\n")
    with pytest.raises(ValueError, match="TOY_node_labels.txt has the label 6, but the training data had 3 to 5"):
        read_tu(tmp_path, "TOY", encoding=known)
    with pytest.raises(ValueError, match="the encoding is for 'table' data"):
        read_tu(tmp_path, "TOY", encoding={"kind": "table"})


@pytest.mark.parametrize(("name", "folds"), [("MUTAG", None), ("PROTEINS", [[0], [1]])])
def test_published_folds_count_in_the_order_of_their_files(tmp_path, name, folds):
    """MUTAG comes in two orders: files that are not those the folds were drawn from have none."""
    for part, text in FILES.items():
        (tmp_path / f"{name}_{part}.txt").write_text(text)
    (tmp_path / "10fold_test_idx.json").write_text("[[0], [1]]")
    assert CATALOG[name.lower()].layouts[0].read(tmp_path).test_folds == folds


def test_unused_files_are_reported(tmp_path):
    write(tmp_path, node_attributes="1\n2\n3\n4\n5\n", edge_attributes="1\n" * 6)
    _, report = read_path(tmp_path)
    assert [finding.file for finding in report.findings if finding.code == "ignored-file"] == [
        "TOY_edge_attributes.txt",
        "TOY_node_attributes.txt",
    ]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"graph_labels": None}, FileNotFoundError, "TOY_graph_labels.txt does not exist"),
        ({"A": "1, 9\n"}, ValueError, "contains node 9, but there are 5 nodes"),
        ({"A": "1, 3\n"}, ValueError, "has an edge between nodes of two graphs"),
        ({"A": "1, x\n"}, ValueError, "TOY_A.txt cannot be read"),
        ({"graph_indicator": "1\n2\n1\n2\n2\n"}, ValueError, "must list the nodes graph by graph"),
        ({"graph_labels": "0\n"}, ValueError, "has nodes of 2 graphs but 1 graph labels"),
        ({"A": "1, 1.5\n"}, ValueError, "TOY_A.txt must contain integers"),
        ({"A": "1\n"}, ValueError, "TOY_A.txt must have 2 columns, got 1"),
        ({"graph_indicator": "0\n0\n1\n1\n1\n"}, ValueError, "must number graphs from 1, got 0"),
        ({"edge_labels": "0\n"}, ValueError, "TOY_edge_labels.txt must have 6 rows, got 1"),
        ({"node_labels": "0\n"}, ValueError, "TOY_node_labels.txt must have 5 rows, got 1"),
    ],
)
def test_files_that_do_not_fit_together(tmp_path, changes, error, message):
    write(tmp_path, **changes)
    with pytest.raises(error, match=message):
        read_tu(tmp_path, "TOY")


def test_real_valued_graph_labels_are_targets(tmp_path):
    write(tmp_path, graph_labels="0.5\n2\n")
    graphs = read_tu(tmp_path, "TOY")
    assert graphs.y.tolist() == [0.5, 2.0]
    assert read_tu(tmp_path, "TOY", encoding=graphs.encoding).y.tolist() == [0.5, 2.0]


@pytest.mark.parametrize("labels", [None, ""])
def test_graphs_without_edges(tmp_path, labels):
    write(tmp_path, A="", edge_labels=labels)
    first, second = read_tu(tmp_path, "TOY")
    assert first.edge_index.shape == second.edge_index.shape == (2, 0)
    assert first.x.tolist() == [[1, 0, 0], [0, 0, 1]]


@pytest.mark.parametrize(
    ("folder", "name"),
    [("tu", "MUTAG"), ("tu_original", "MUTAG"), ("tu", "PROTEINS"), ("tu", "IMDB-BINARY"), ("tu", "IMDB-MULTI")],
)
def test_the_real_files_as_pyg_reads_them(folder, name, real_data):
    raw = real_data(f"{folder}/{name}/raw")
    ours = read_tu(raw, name, attributes=True)
    theirs, slices, _ = read_tu_data(str(raw), name)
    for part in ("x", "edge_index", "edge_attr", "y"):
        tensor = getattr(ours, part)
        assert (tensor is None) == (theirs.get(part) is None), part
        if tensor is not None:
            assert tensor.dtype == theirs[part].dtype, part
            assert torch.equal(tensor, theirs[part]), part
    assert ours.num_edges.tolist() == slices["edge_index"].diff().tolist()
    assert ours.num_nodes.tolist() == (slices["x"].diff().tolist() if theirs.x is not None else theirs._num_nodes)
