"""Reading graphs on disk: the content of the graph in memory, and errors that name every damage."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
import torch
from tests import warm
from tests.unit.data.disks import by_destination, random_graph, same
from torch_geometric.data import Data

from tgnn.data import load
from tgnn.data.convert import write as write_disk
from tgnn.data.dataset_info import content_hash
from tgnn.data.load import task_level
from tgnn.data.on_disk import DiskGraph, GraphWriter
from tgnn.data.on_disk.manifest import Manifest
from tgnn.data.readers.detect import detect_format
from tgnn.data.splits import protocols
from tgnn.data.tensors import keep_ids
from tgnn.data.transforms import scale_rows
from tgnn.data.validation.validate import validate


@pytest.fixture
def folder(tmp_path):
    write_disk(random_graph(), tmp_path / "graph")
    return tmp_path / "graph"


def small(**attributes: object) -> Data:
    data = Data(num_nodes=3, x=torch.eye(3), edge_index=torch.tensor([[0, 1], [1, 1]]), y=torch.tensor([0, 1, -1]))
    return data.update(attributes)


CLASSES = {"version": 1, "target": {"task": "classification", "classes": ["a", "b"]}}
GRAPHS: dict[str, Callable[[], Data]] = {
    "hubs": random_graph,
    "many duplicate edges": lambda: random_graph(70, 3000, 2, seed=1),
    "one node": lambda: Data(x=torch.ones(1, 1), edge_index=torch.empty(2, 0, dtype=torch.int64), num_nodes=1),
    "no edges": lambda: Data(x=torch.ones(2, 1), num_nodes=2),
    "sparse features": lambda: small(x=torch.tensor([[0.0, 2.0], [0.0, 0.0], [1.5, 0.0]]).to_sparse_csr()),
    "one feature": lambda: small(x=torch.tensor([1.5, 2.0, 3.0])),
    "categories": lambda: small(x=torch.tensor([[1], [2], [2**20]])),
    "half precision": lambda: small(x=torch.randn(3, 4).half()),
    "string ids": lambda: small(node_id=keep_ids(pl.Series(["ann", "Zoë", "007"])), encoding=CLASSES),
    "integer ids": lambda: small(node_id=torch.tensor([3, 1, 2**50])),
    "multi-label": lambda: small(y=torch.tensor([[0.0, 1.0], [1.0, float("nan")], [0.0, 0.0]])),
    "regression": lambda: small(y=torch.tensor([0.5, float("nan"), 7.0])),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_round_trip(tmp_path, name):
    data = GRAPHS[name]()
    write_disk(data, tmp_path / "graph")
    graph = DiskGraph(tmp_path / "graph")
    if data.edge_index is None:
        data.edge_index = torch.empty(2, 0, dtype=torch.int64)
    data.edge_index = by_destination(data.edge_index)
    data.x = data.x.float() if data.x.is_floating_point() else data.x
    data.x = data.x.unsqueeze(1) if data.x.dim() == 1 else data.x
    same(graph.to_memory(), data)
    assert graph.encoding == data.get("encoding")
    assert graph.info.target == (name if name in ("multi-label", "regression") else "classification")
    if name == "half precision":
        assert graph.x.dtype == torch.float16
    if name == "categories":
        assert graph.x.dtype == torch.int32
        with pytest.raises(ValueError, match="numeric features"):
            graph.features = "row-sum"


def test_load_and_its_splits(folder):
    data = random_graph()
    graph = load(folder)
    assert detect_format(folder) == "graph on disk"
    assert task_level(str(folder)) == "node"
    assert graph.split.name == "column"
    assert torch.equal(graph.split.train, (data.train_mask & (data.y >= 0)).nonzero().squeeze(1))
    assert list(protocols(graph)) == ["column", "per-class-quota", "stratified", "fold"]
    assert len(load(folder, split="fold", seed=3).split.test) > 0
    assert graph.get("x") is graph.x
    assert graph.get("edge_attr", 5) == 5
    assert graph.get("no such thing") is None


@pytest.mark.parametrize("memory", [100, 2**40])
def test_rows_are_scaled_when_they_are_read(folder, monkeypatch, memory):
    monkeypatch.setattr("tgnn.data.on_disk.disk_graph._memory", lambda: memory)
    graph, x = DiskGraph(folder), random_graph().x
    assert (graph.x.data_ptr() != graph._in_order.data_ptr()) == (memory == 100)  # a second map for random access
    index = torch.tensor([5, 0, 5, 299])
    for how in ("stored", "row-sum", "row-l2"):
        graph.features = how
        torch.testing.assert_close(graph.rows(index), scale_rows(x, how)[index], rtol=0, atol=0)
        torch.testing.assert_close(graph.rows_between(7, 20), scale_rows(x, how)[7:20], rtol=0, atol=0)
    with pytest.raises(ValueError, match="row-l3"):
        graph.features = "row-l3"
    graph.rows_between(0, 3)[:] = 7  # a copy, because writing to a read-only map would kill the process
    graph.features = "stored"
    assert torch.equal(graph.rows_between(0, 3), x[:3])


def test_a_graph_without_features(tmp_path):
    write_disk(small(x=None), tmp_path / "graph")
    with pytest.raises(ValueError, match="The nodes of graph have no features"):
        DiskGraph(tmp_path / "graph").rows(torch.tensor([0]))
    assert "no-features" in [finding.code for finding in validate(tmp_path / "graph").findings]


def test_the_hash_depends_on_the_content_only(tmp_path, folder):
    write_disk(random_graph(), tmp_path / "same")
    assert content_hash(DiskGraph(tmp_path / "same")) == content_hash(DiskGraph(folder))
    for name in ("x", "y", "edge_index"):
        other = random_graph()
        other[name].view(-1)[0] += 1
        write_disk(other, tmp_path / name)
        assert content_hash(DiskGraph(tmp_path / name)) != content_hash(DiskGraph(folder)), name


def test_edge_features_are_dropped_only_with_leave_out(tmp_path):
    data = random_graph()
    data.edge_attr, data.edge_weight = torch.ones(4000, 2), torch.ones(4000)
    with pytest.raises(ValueError, match="cannot store edge features or edge weights. Drop them with --leave-out"):
        write_disk(data, tmp_path / "graph")
    assert not list(tmp_path.iterdir())
    write_disk(data, tmp_path / "graph", leave_out=True)
    assert DiskGraph(tmp_path / "graph").num_edges == 4000


def test_indices_of_string_ids(tmp_path):
    ids = [f"n{number}" for number in range(9)]
    with GraphWriter(tmp_path / "graph", len(ids)) as writer:
        writer.set_ids(pl.Series(ids))
    found = DiskGraph(tmp_path / "graph").node_id
    for index in (slice(3, 5), slice(None, None, -2)):
        assert found[index].tolist() == ids[index]
    assert found[torch.tensor([8, 0, -1])].tolist() == found[[8, 0, 8]].tolist() == ["n8", "n0", "n8"]
    for index in (1, np.int64(1), torch.tensor(1), -8):
        assert found[index] == "n1"
    with pytest.raises(IndexError):
        found[9]
    assert list(found) == found.tolist() == np.array(found).tolist() == ids


def test_opening_takes_no_memory(tmp_path):
    """100 MB of features: a process that opens them and reads a few rows stays far below."""
    with GraphWriter(tmp_path / "wide", 50_000) as writer:
        for _ in range(50):
            writer.add_nodes(x=np.zeros((1000, 500), dtype=np.float32), y=np.zeros(1000, dtype=np.int64))
        writer.add_edges(np.arange(50_000), np.arange(50_000)[::-1])
    program = """if True:
        import resource, sys, torch
        from tgnn.data import load
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        graph = load(sys.argv[1])
        graph.rows(torch.tensor([3, 40_000]))
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"""
    found = warm.run(program, str(tmp_path / "wide"), folder=tmp_path)
    assert int(found.stdout) < 40_000  # KiB


# ---- damage ------------------------------------------------------------------------------------------------------


def update_manifest(folder, **arrays):
    """Replace arrays, and write the manifest as if the graph had been written with them."""
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    content = json.loads((folder / "graph.json").read_text())
    Manifest.write(folder, {key: content[key] for key in ("nodes", "edges", "features", "info", "encoding")})


def errors(folder):
    return [(finding.code, finding.file) for finding in validate(folder).findings if finding.level == "error"]


def assert_damaged(folder, message):
    with pytest.raises(ValueError, match=message) as caught:
        load(folder)
    assert "\n" not in str(caught.value)
    assert "write the graph again with tgnn data convert SOURCE FOLDER" in str(caught.value)


NOTHING = object()


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (("version",), 2, "version is 2, but it should be 1"),
        (("files", "x.npy", "sha256"), NOTHING, "files.x.npy.sha256 is missing"),
        (("files", "../secret.npy"), {"bytes": 3, "sha256": ""}, "the file '../secret.npy' is unknown"),
        (("files", "col.npy"), NOTHING, "col.npy is not listed"),
        (("hash",), "5", "the hash does not match the checksums of the files"),
        (("nodes",), -1, "nodes is -1, but it should be greater than or equal to 0"),
        (("info", "new"), 1, "info.new is an unknown key"),
        (
            ("info", "target"),
            "zzz",
            "info.target is 'zzz', but it should be 'classification', 'multi-label' or",
        ),
    ],
)
def test_an_invalid_manifest(folder, keys, value, message):
    content = json.loads((folder / "graph.json").read_text())
    inner = content
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    if value is NOTHING:
        del inner[keys[-1]]
    (folder / "graph.json").write_text(json.dumps(content))
    assert_damaged(folder, message)
    with pytest.raises(ValueError, match=message):
        validate(folder)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"version": 1, "files": 3}'])
def test_another_graph_json(folder, text):
    (folder / "graph.json").write_text(text)
    assert_damaged(folder, "graph.json is damaged")
    (folder / "graph.json").unlink()
    with pytest.raises(ValueError, match="it has no graph.json. Write one with tgnn data convert"):
        DiskGraph(folder)
    with pytest.raises(ValueError, match="is not supported"):
        load(folder)


@pytest.mark.parametrize("name", ["rowptr.npy", "col.npy", "x.npy", "y.npy", "part.npy"])
def test_damaged_arrays(folder, name):
    path = folder / name
    content, array = path.read_bytes(), np.load(path)
    path.write_bytes(content[:-12] + bytes([content[-12] ^ 1]) + content[-11:])
    assert errors(folder) == [("damaged-file", name)]
    path.write_bytes(content[:-5])
    assert_damaged(folder, rf"{name} has [\d,]+ bytes, but must have [\d,]+; copy the folder again")
    for wrong in (array[:-1], array.astype(np.complex64), array.reshape(1, *array.shape)):
        update_manifest(folder, **{path.stem: wrong})
        assert_damaged(folder, f"{name} has .*, but must have")
    path.write_bytes(b"x" * len(content))
    update_manifest(folder)
    assert_damaged(folder, f"{name} is not a NumPy array")
    path.unlink()
    assert_damaged(folder, f"{name} is missing")


@pytest.mark.parametrize(
    ("name", "rows", "value", "message"),
    [
        ("rowptr", slice(100, 200), 10**12, r"decreases after row 199 \(from 1,000,000,000,000 to [\d,]+\)"),
        ("rowptr", slice(100, 200), -7, r"decreases after row 99 \(from [\d,]+ to -7\)"),
        ("rowptr", slice(0, 1), 1, "ranges from 1 to 4,000, but must range from 0 to 4,000"),
        ("rowptr", slice(300, 301), 3999, "ranges from 0 to 3,999, but must range from 0 to 4,000"),
        ("y", 7, 9, r"has the class 9, but there are 4 classes \(0 to 3\)"),
        ("part", 7, 9, "has the value 9, but must be 0 "),
    ],
)
def test_invalid_values_are_reported_when_the_graph_is_opened(folder, name, rows, value, message):
    array = np.load(folder / f"{name}.npy")
    array[rows] = value
    np.save(folder / f"{name}.npy", array)
    assert_damaged(folder, f"{name}.npy {message}")
    assert errors(folder) == [("damaged-file", f"{name}.npy")]
    update_manifest(folder)
    assert errors(folder) == [("invalid-array", f"{name}.npy")]


def test_labels_of_another_type(folder):
    update_manifest(folder, y=np.zeros((300, 2), dtype=np.float32))
    assert_damaged(folder, r"y.npy has float32 \[300, 2\], but classes must be integers \[nodes\]")


def test_check_reads_all_edges_and_features(folder):
    report, data = validate(folder), random_graph()
    pairs = set(zip(*data.edge_index.tolist()))
    assert report.statistics["duplicate edges"] == 4000 - len(pairs)
    assert report.statistics["self-loops"] == int((data.edge_index[0] == data.edge_index[1]).sum())
    (isolated,) = [finding for finding in report.findings if finding.code == "isolated-node"]
    assert isolated.count == 300 - len({node for pair in pairs if pair[0] != pair[1] for node in pair})
    ptr, col, x = (np.load(folder / f"{name}.npy") for name in ("rowptr", "col", "x"))
    update_manifest(folder, col=np.where(np.arange(4000) == 77, 300, col).astype(np.int32))
    (finding,) = validate(folder).findings
    assert (finding.code, finding.locations) == ("dangling-id", (int(np.searchsorted(ptr, 77, side="right")) - 1,))
    x[4, 2] = np.nan
    update_manifest(folder, col=col, x=x)
    assert ("infinite-feature", (4,)) in [(f.code, f.locations) for f in validate(folder).findings]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pl.Series("id", ["ann", "bob"]), r"has 2 rows of \{'id': String\}, but must have 3 strings in 'id'"),
        (pl.Series("name", ["ann", "bob", "eve"]), r"has 3 rows of \{'name': String\}"),
        (b"PAR1" + 90 * b"x" + b"PAR1", "is not a valid Parquet file"),
    ],
)
def test_damaged_string_ids(tmp_path, column, message):
    write_disk(small(node_id=keep_ids(pl.Series(["ann", "bob", "eve"]))), tmp_path / "graph")
    path = tmp_path / "graph" / "node_id.parquet"
    assert validate(tmp_path / "graph").ok
    content = path.read_bytes()
    path.write_bytes(content[:20] + bytes([content[20] ^ 1]) + content[21:])
    assert errors(tmp_path / "graph") == [("damaged-file", "node_id.parquet")]
    if isinstance(column, bytes):
        path.write_bytes(column)
    else:
        pl.DataFrame([column]).write_parquet(path)
    update_manifest(tmp_path / "graph")
    with pytest.raises(ValueError, match=f"node_id.parquet {message}.*; copy the folder again"):
        _ = DiskGraph(tmp_path / "graph").node_id
    assert "wrong-ids" in [code for code, _ in errors(tmp_path / "graph")]


@pytest.mark.parametrize("ids", [["ann", "bob", "ann"], [5, 7, 5]])
def test_check_reports_duplicate_ids(tmp_path, ids):
    write_disk(small(node_id=keep_ids(pl.Series(ids))), tmp_path / "graph")
    assert ("duplicate-id", (2,)) in [(f.code, f.locations) for f in validate(tmp_path / "graph").findings]
