"""Detection of the format of a path: the data is read, or the error says what to do."""

from __future__ import annotations

import pickle
import textwrap
from pathlib import Path

import networkx
import numpy as np
import pytest
import torch
from tests.unit.data.downloads import Poison

from tgnn.data.catalog.embedded import karate
from tgnn.data.convert import write as write_disk
from tgnn.data.readers.detect import CONVERT, detect_format, is_on_disk, read_path
from tgnn.data.readers.graph_npz import write_graphs

EDGES = "source,target\n1,2\n"
PACKED = {"num_nodes": [2, 1], "num_edges": [1, 0], "edge_index": [[0], [1]], "y": [0.5, 1.5]}
BENCHMARK = {"adj_data": [1], "adj_indices": [1], "adj_indptr": [0, 1, 1], "adj_shape": [2, 2], "labels": [0, 1]}
TU = {
    "TOY_A__txt": "1, 2\n2, 1\n",
    "TOY_graph_indicator__txt": "1\n1\n2\n",
    "TOY_graph_labels__txt": "-1\n1\n",
    "TOY_node_labels__txt": "0\n1\n0\n",
}


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def make_files(folder: Path) -> dict[str, Path]:
    """Create data of each format."""
    np.savez(folder / "benchmark.npz", **BENCHMARK)
    np.savez(folder / "packed.npz", **PACKED)
    write_graphs(karate(), folder / "graph.npz")
    write_disk(karate(), folder / "disk")
    graphs = {"graphs__csv": "id,label\n1,0.5\n", "nodes__csv": "id,graph,a\n1,1,3\n2,1,4\n", "edges__csv": EDGES}
    return {
        "table": write(folder / "table", nodes__csv="id,a\n1,5\n2,6\n", edges__csv=EDGES),
        "graph tables": write(folder / "graphs", **graphs),
        "smiles": write(folder, molecules__csv="smiles,y\nCO,1.5\n") / "molecules.csv",
        "tu": write(folder / "tu" / "raw", **TU).parent,
        "gnn-benchmark": folder / "benchmark.npz",
        "packed": folder / "packed.npz",
        "graph": folder / "graph.npz",
        "graph on disk": folder / "disk",
    }


def test_every_format_is_detected_and_read(tmp_path):
    for kind, path in make_files(tmp_path).items():
        assert detect_format(path) == kind
        data, report = read_path(path)
        assert (report.format, report.path) == (kind, str(path))
        assert report.ok
        nodes = data.num_nodes
        assert report.statistics["nodes"] == (int(nodes.sum()) if isinstance(nodes, torch.Tensor) else nodes)
        assert report.statistics["edges"] > 0
        assert is_on_disk(path) == (kind == "graph on disk")
    assert detect_format(tmp_path / "table" / "nodes.csv") == "table"
    assert read_path(tmp_path / "table" / "edges.csv")[0].num_nodes == 2


def test_attributes_are_the_features_of_tu_files_without_labels(tmp_path):
    path = make_files(tmp_path)["tu"]
    (path / "raw" / "TOY_node_labels.txt").unlink()
    (path / "raw" / "TOY_node_attributes.txt").write_text("0.5\n1\n2\n")
    assert read_path(path)[0][0].x.tolist() == [[0.5], [1.0]]
    (path / "raw" / "OTHER_A.txt").write_text("")
    with pytest.raises(ValueError, match=r"has several data sets \(OTHER, TOY\)"):
        read_path(path)


@pytest.mark.parametrize("name", ["graph.gpickle", "graph.pkl", "graph.pickle", "graph.pkl.gz"])
def test_a_pickle_is_never_opened(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(pickle.dumps(Poison()))
    with pytest.raises(ValueError, match="is a pickle and is not opened") as caught:
        read_path(tmp_path / name)
    assert CONVERT in str(caught.value)
    assert not (tmp_path / "poisoned").exists()


def test_the_conversion_of_networkx_graphs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    graph = networkx.karate_club_graph()
    exec(textwrap.dedent(CONVERT), {"G": graph})
    (tmp_path / "schema.yaml").write_text("scale_weights: true\nnodes: {label: club}\n")
    data, _ = read_path(tmp_path)
    assert (data.num_nodes, data.num_edges) == (34, 156)
    assert data.encoding["target"]["classes"] == ["Mr. Hi", "Officer"]
    assert float(data.edge_weight.max()) == 1


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"notes__txt": "hello"}, "is not supported. Supported are:\n- a folder with edges.csv"),
        ({"nodes__csv": "id\n1\n"}, "has a table of nodes but no edges.csv"),
        ({"ind__cora__graph": ""}, "tgnn data fetch cora"),
    ],
)
def test_unsupported_folders(tmp_path, files, message):
    with pytest.raises(ValueError, match=message):
        detect_format(write(tmp_path, **files))


def test_unsupported_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        detect_format(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="is not supported"):
        detect_format(write(tmp_path, graph__gml="") / "graph.gml")
    np.savez(tmp_path / "some.npz", a=np.zeros(2))
    with pytest.raises(ValueError, match="has the arrays a, but must be"):
        detect_format(tmp_path / "some.npz")
    (tmp_path / "some.npz").write_bytes(b"PK no")
    with pytest.raises(ValueError, match="is not a .npz file"):
        detect_format(tmp_path / "some.npz")
