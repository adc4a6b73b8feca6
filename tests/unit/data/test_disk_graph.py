"""A graph on disk: what was in memory comes back, and what is damaged is named."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
import torch
from tests import warm
from tests.unit.data.disks import by_destination, random_graph, same
from torch_geometric.data import Data

from tgnn.data import load
from tgnn.data.dataset_info import content_hash, statistics
from tgnn.data.load import task_level
from tgnn.data.on_disk import DiskGraph, GraphWriter, array_checks
from tgnn.data.on_disk.from_memory import write_disk
from tgnn.data.readers.detect import detect_format
from tgnn.data.sampler import NeighborSampler
from tgnn.data.splits import protocols
from tgnn.data.tensors import keep_ids
from tgnn.data.transforms import scale_rows
from tgnn.data.validation.validate import validate


@pytest.fixture
def folder(tmp_path):
    write_disk(random_graph(), tmp_path / "graph")
    return tmp_path / "graph"


@pytest.mark.parametrize("data", [random_graph(), random_graph(1, 0, 1), random_graph(70, 3000, 2, seed=1)])
def test_what_was_in_memory_comes_back(tmp_path, data):
    if data.num_nodes == 1:
        data.edge_index = torch.empty(2, 0, dtype=torch.int64)
    write_disk(data, tmp_path / "graph")
    again = DiskGraph(tmp_path / "graph").to_memory()
    data.edge_index = by_destination(data.edge_index)
    same(again, data)


@pytest.mark.parametrize("name", ["karate", "digits"])
def test_data_sets_of_the_catalog(tmp_path, name):
    data = load(name, seed=3)
    write_disk(data, tmp_path / "graph")
    again = load(tmp_path / "graph", seed=3)
    assert again.split.hash == data.split.hash
    assert (again.info.name, again.info.metric, again.info.outputs) == (name, "accuracy", data.info.outputs)
    assert statistics(again) == statistics(data)
    data.edge_index = by_destination(data.edge_index)
    data.train_mask = None
    same(again.to_memory(), data)


@pytest.mark.parametrize("ids", [["ann", "Zoë", "007"], [3, 1, 2**50]])
def test_sparse_features_ids_and_encoding(tmp_path, ids):
    data = Data(x=torch.tensor([[0.0, 2.0], [0.0, 0.0], [1.5, 0.0]]).to_sparse_csr(), num_nodes=3)
    data.edge_index, data.node_id = torch.tensor([[0, 1], [1, 1]]), keep_ids(pl.Series(ids))
    data.encoding = {"version": 1, "target": {"task": "classes", "classes": ["a", "b"]}}
    data.y = torch.tensor([0, 1, -1])
    write_disk(data, tmp_path / "graph")
    graph = DiskGraph(tmp_path / "graph")
    same(graph.to_memory(), data)
    assert graph.encoding == data.encoding
    assert graph.info.outputs == 2
    assert graph.node_id[torch.tensor([2, 0])].tolist() == [ids[2], ids[0]]
    assert graph.node_id[1] == ids[1]


def test_categories_and_half_precision(tmp_path):
    data = random_graph(20, 40)
    data.x = torch.arange(40).reshape(20, 2)
    write_disk(data, tmp_path / "integers")
    graph = DiskGraph(tmp_path / "integers")
    assert graph.x.dtype == torch.int32
    assert torch.equal(graph.rows_between(0, 20), data.x)
    with pytest.raises(ValueError, match="numeric features"):
        graph.features = "row-sum"
    data.x = torch.randn(20, 3).half()
    write_disk(data, tmp_path / "halves")
    graph = DiskGraph(tmp_path / "halves")
    assert graph.x.dtype == torch.float16
    assert torch.equal(graph.rows(torch.tensor([3, 1])), data.x[[3, 1]].float())


def test_several_labels_and_numbers(tmp_path):
    for name, y, target in (
        ("labels", torch.randint(0, 2, (300, 5)).float(), "labels"),
        ("number", torch.randn(300), "number"),
    ):
        data = random_graph()
        data.y = y
        data.y[3] = float("nan")
        write_disk(data, tmp_path / name)
        graph = load(tmp_path / name, split="stratified")
        assert graph.info.target == target
        assert torch.equal(graph.y.nan_to_num(9), y.nan_to_num(9))
        assert not (torch.cat([graph.split.train, graph.split.val, graph.split.test]) == 3).any()


def test_load_and_its_splits(folder):
    data = random_graph()
    graph = load(folder)
    assert detect_format(folder) == "graph on disk"
    assert task_level(str(folder)) == "node"
    assert graph.split.name == "column"
    labeled = data.y >= 0
    assert torch.equal(graph.split.train, (data.train_mask & labeled).nonzero().squeeze(1))
    assert list(protocols(graph)) == ["column", "per-class-quota", "stratified", "fold"]
    assert len(load(folder, split="fold", seed=3).split.test) > 0
    assert graph.get("x") is graph.x
    assert graph.get("edge_attr", 5) == 5
    assert graph.get("no such thing") is None


def test_rows_are_scaled_as_they_are_read(folder):
    graph, x = DiskGraph(folder), random_graph().x
    index = torch.tensor([5, 0, 5, 299])
    for how in ("stored", "row-sum", "row-l2"):
        graph.features = how
        assert torch.equal(graph.rows(index), scale_rows(x, how)[index])
        assert torch.equal(graph.rows_between(7, 20), scale_rows(x, how)[7:20])
    with pytest.raises(ValueError, match="row-l3"):
        graph.features = "row-l3"
    graph.rows_between(0, 3)[:] = 7  # a copy: what is mapped cannot be written, and the process would die
    assert torch.equal(DiskGraph(folder).rows_between(0, 3), x[:3])


def test_rows_of_what_does_not_fit_in_memory(folder, monkeypatch):
    monkeypatch.setattr("tgnn.data.on_disk.disk_graph._memory", lambda: 100)
    graph, x = DiskGraph(folder), random_graph().x
    assert graph.x.data_ptr() != graph._in_order.data_ptr()  # one map for rows here and there, one for rows in order
    assert torch.equal(graph.rows(torch.tensor([299, 3])), x[[299, 3]])
    assert torch.equal(graph.rows_between(0, 300), x)


def test_the_sampler_takes_it(folder):
    graph = DiskGraph(folder)
    sampler = NeighborSampler((graph.in_edges.ptr, graph.in_edges.index), [-1])
    sample = sampler._sample(torch.tensor([1]))
    into = random_graph().edge_index[0][random_graph().edge_index[1] == 1]
    assert sorted(sample.node[sample.row].tolist()) == sorted(into.tolist())


def test_the_hash_tells_the_content_and_not_the_name(tmp_path, folder):
    data = random_graph()
    write_disk(data, tmp_path / "same")
    assert content_hash(DiskGraph(tmp_path / "same")) == content_hash(DiskGraph(folder))
    for name in ("x", "y", "edge_index"):
        other = random_graph()
        other[name] = data[name].clone()
        other[name].view(-1)[0] += 1
        write_disk(other, tmp_path / name)
        assert content_hash(DiskGraph(tmp_path / name)) != content_hash(DiskGraph(folder)), name


def test_what_it_cannot_keep_is_left_out_only_if_wanted(tmp_path):
    data = random_graph()
    data.edge_attr = torch.ones(4000, 2)
    data.edge_weight = torch.ones(4000)
    with pytest.raises(ValueError, match="cannot store edge features or edge weights. Drop them with --leave-out"):
        write_disk(data, tmp_path / "graph")
    assert not list(tmp_path.iterdir())
    write_disk(data, tmp_path / "graph", leave_out=True)
    assert DiskGraph(tmp_path / "graph").num_edges == 4000


# ---- damage ------------------------------------------------------------------------------------------------------


def test_a_cut_file_is_named(folder):
    path = folder / "col.npy"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(ValueError, match=r"col.npy has 16,123 bytes, but must have 16,128; copy the folder again"):
        load(folder)


def test_another_version(folder):
    facts = json.loads((folder / "graph.json").read_text())
    (folder / "graph.json").write_text(json.dumps(facts | {"version": 2}))
    with pytest.raises(
        ValueError, match="has version 2, but this version of tgnn reads version 1; write the graph again"
    ):
        load(folder)


def test_a_missing_file(folder):
    (folder / "x.npy").unlink()
    with pytest.raises(FileNotFoundError, match="x.npy is missing"):
        load(folder)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"version": 1, "files": {}}', '{"version": 1, "files": 3}'])
def test_not_such_a_folder(folder, text):
    (folder / "graph.json").write_text(text)
    with pytest.raises(ValueError, match="graph.json"):
        load(folder)
    (folder / "graph.json").unlink()
    with pytest.raises(
        ValueError, match="is not a graph on disk because it has no graph.json. Write one with tgnn data convert"
    ):
        DiskGraph(folder)
    with pytest.raises(ValueError, match="is not supported"):
        load(folder)


def test_a_path_outside_of_the_folder_is_refused(folder):
    facts = json.loads((folder / "graph.json").read_text())
    facts["files"]["../secret.npy"] = {"bytes": 3, "sha256": ""}
    (folder / "graph.json").write_text(json.dumps(facts))
    with pytest.raises(ValueError, match="the file '.*secret.npy' is unknown"):
        load(folder)


@pytest.mark.parametrize("name", ["rowptr.npy", "col.npy", "x.npy", "y.npy", "part.npy"])
def test_other_arrays_are_refused(folder, name):
    def replace(array: np.ndarray) -> None:
        np.save(folder / name, array)
        facts = json.loads((folder / "graph.json").read_text())
        facts["files"][name]["bytes"] = (folder / name).stat().st_size
        (folder / "graph.json").write_text(json.dumps(facts))

    whole = np.load(folder / name)
    for wrong in (whole[:-1], whole.astype(np.complex64), whole.reshape(1, *whole.shape)):
        replace(wrong)
        with pytest.raises(ValueError, match=f"{name} has .*, but must have"):
            load(folder)
    (folder / name).write_bytes(b"x" * (folder / name).stat().st_size)
    with pytest.raises(ValueError, match=f"{name} is not a NumPy array"):
        load(folder)


def test_check_finds_every_byte_that_was_changed(folder):
    assert validate(folder).ok
    for name in ("rowptr.npy", "col.npy", "x.npy", "y.npy", "part.npy"):
        path = folder / name
        whole = path.read_bytes()
        path.write_bytes(whole[:-12] + bytes([whole[-12] ^ 1]) + whole[-11:])
        report = validate(folder)
        assert [(f.code, f.file) for f in report.findings if f.level == "error"] == [("damaged-file", name)]
        path.write_bytes(whole)


def write_manifest(folder, **arrays):
    """Writes arrays over those of a graph, as if they had been written so."""
    from tgnn.data.on_disk import layout

    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    facts = json.loads((folder / "graph.json").read_text())
    facts = {key: facts[key] for key in ("nodes", "edges", "features", "info", "encoding")}
    layout.write_manifest(folder, facts)


def test_check_looks_at_edges_and_rows(folder):
    report = validate(folder)
    data = random_graph()
    pairs = set(zip(*data.edge_index.tolist()))
    assert report.statistics["duplicate edges"] == 4000 - len(pairs)
    assert report.statistics["self-loops"] == int((data.edge_index[0] == data.edge_index[1]).sum())
    alone = [f for f in report.findings if f.code == "isolated-node"]
    assert alone[0].count == 300 - len({n for p in pairs if p[0] != p[1] for n in p})
    ptr, col, x = (np.load(folder / f"{name}.npy") for name in ("rowptr", "col", "x"))
    falling = ptr.copy()
    falling[5] = ptr[7] + 1
    write_manifest(folder, rowptr=falling)
    assert [f.code for f in validate(folder).findings] == ["falling-pointer"]
    write_manifest(folder, rowptr=ptr, col=np.where(np.arange(4000) == 77, 300, col).astype(np.int32))
    (finding,) = validate(folder).findings
    assert (finding.code, finding.locations) == ("dangling-id", (int(np.searchsorted(ptr, 77, side="right")) - 1,))
    x[4, 2] = np.nan
    write_manifest(folder, col=col, x=x)
    assert ("infinite-feature", (4,)) in [(f.code, f.locations) for f in validate(folder).findings]


def one_line(caught):
    text = str(caught.value)
    assert "\n" not in text
    assert "write the graph again with tgnn data convert SOURCE FOLDER" in text


@pytest.mark.parametrize(
    ("rows", "value", "message"),
    [
        (slice(100, 200), 10**12, r"decreases after row 199 \(from 1,000,000,000,000 to [\d,]+\)"),
        (slice(100, 200), -7, r"decreases after row 99 \(from [\d,]+ to -7\)"),
        (slice(0, 1), 1, "ranges from 1 to 4,000, but must range from 0 to 4,000"),
        (slice(300, 301), 3999, "ranges from 0 to 3,999, but must range from 0 to 4,000"),
    ],
)
def test_invalid_pointers_are_reported_when_the_graph_is_opened(folder, rows, value, message):
    rowptr = np.load(folder / "rowptr.npy")
    rowptr[rows] = value
    np.save(folder / "rowptr.npy", rowptr)
    with pytest.raises(ValueError, match=f"rowptr.npy {message}") as caught:
        load(folder)
    one_line(caught)
    assert [(f.code, f.file) for f in validate(folder).findings] == [("damaged-file", "rowptr.npy")]
    write_manifest(folder)  # as if it had been written so: the sums agree
    assert [f.code for f in validate(folder).findings if f.level == "error"] in (
        ["falling-pointer"],
        ["wrong-pointer"],
    )


def test_pointers_are_looked_at_across_blocks(monkeypatch):
    monkeypatch.setattr(array_checks, "_AT_ONCE", 3)
    for place in range(10):
        pointers = np.arange(11)
        pointers[place] = 20
        assert array_checks.decreasing(pointers).tolist() == [place]
    assert array_checks.decreasing(np.arange(11)).tolist() == []


def test_targets_that_are_not_those_of_graph_json(folder):
    y = np.load(folder / "y.npy")
    y[7] = 9
    np.save(folder / "y.npy", y)
    with pytest.raises(ValueError, match=r"y.npy has the class 9, but there are 4 classes \(0 to 3\)") as caught:
        load(folder)
    one_line(caught)
    assert [(f.code, f.file) for f in validate(folder).findings] == [("damaged-file", "y.npy")]
    write_manifest(folder)
    assert ("wrong-labels", "y.npy") in [(f.code, f.file) for f in validate(folder).findings]


def test_parts_that_do_not_exist(folder):
    part = np.load(folder / "part.npy")
    part[7] = 9
    write_manifest(folder, part=part)
    with pytest.raises(ValueError, match=r"part.npy has the value 9, but the split must be 0, 1, 2 or 3") as caught:
        load(folder)
    one_line(caught)
    assert ("wrong-part", "part.npy") in [(f.code, f.file) for f in validate(folder).findings]


NOTHING = object()


@pytest.mark.parametrize(
    ("names", "value", "message"),
    [
        (("files", "x.npy", "sha256"), NOTHING, "files.x.npy.sha256: Field required"),
        (("files", "x.npy", "sha256"), 5, "files.x.npy.sha256: Input should be a valid string, got 5"),
        (("files", "x.npy", "bytes"), "8", "files.x.npy.bytes: Input should be a valid integer, got '8'"),
        (("files", "x.npy"), [], r"files.x.npy: .*, got \[\]"),
        (("files",), [], r"files: Input should be a valid dictionary, got \[\]"),
        (("format",), "other", "does not describe a graph on disk"),
        (("hash",), NOTHING, "hash: Field required"),
        (("hash",), 5, "hash: Input should be a valid string, got 5"),
        (("nodes",), "many", "nodes: Input should be a valid integer, got 'many'"),
        (("nodes",), -1, "nodes: Input should be greater than or equal to 0, got -1"),
        (("edges",), 1.5, "edges: Input should be a valid integer, got 1.5"),
        (("encoding",), [1], r"encoding: Input should be a valid dictionary, got \[1\]"),
        (("info",), [1], r"info: .*, got \[1\]"),
        (("files", "col.npy"), NOTHING, "files: Value error, col.npy is not listed"),
        (("info", "new"), 1, "info.new: Extra inputs are not permitted, got 1"),
        (("info", "name"), NOTHING, "info.name: Field required"),
        (("info", "name"), 3, "info.name: Input should be a valid string, got 3"),
        (("info", "target"), "zzz", "info.target: Input should be 'classes', 'labels' or 'number', got 'zzz'"),
        (("info", "metric"), ["mae"], r"info.metric: Input should be .*, got \['mae'\]"),
        (("info", "level"), "graph", "info.level: Input should be 'node', got 'graph'"),
        (("info", "outputs"), "x", "info.outputs: Input should be a valid integer, got 'x'"),
        (("info", "outputs"), 2, r"y.npy has the class 3, but there are 2 classes \(0 to 1\)"),
    ],
)
def test_an_invalid_manifest(folder, names, value, message):
    facts = json.loads((folder / "graph.json").read_text())
    inner = facts
    for name in names[:-1]:
        inner = inner[name]
    if value is NOTHING:
        del inner[names[-1]]
    else:
        inner[names[-1]] = value
    (folder / "graph.json").write_text(json.dumps(facts))
    with pytest.raises(ValueError, match=message) as caught:
        load(folder)
    one_line(caught)
    if value == 2:
        assert ("wrong-labels", "y.npy") in [(f.code, f.file) for f in validate(folder).findings]
        return
    with pytest.raises(ValueError, match=message):
        validate(folder)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pl.Series("id", ["ann", "bob"]), "has 2 ids, but must have 3"),
        (pl.Series("id", [1, 2, 3]), r"has the columns \{'id': Int64\}, but must have strings in 'id'"),
        (pl.Series("name", ["ann", "bob", "eve"]), r"has the columns \{'name': String\}"),
        (b"PAR1" + 90 * b"x" + b"PAR1", "is not a valid Parquet file"),
    ],
)
def test_string_ids_that_are_wrong(tmp_path, column, message):
    data = random_graph(3, 0)
    data.edge_index, data.node_id = torch.tensor([[0, 1], [1, 1]]), keep_ids(pl.Series(["ann", "bob", "eve"]))
    write_disk(data, tmp_path / "graph")
    assert validate(tmp_path / "graph").ok
    path = tmp_path / "graph" / "node_id.parquet"
    if isinstance(column, bytes):
        path.write_bytes(column)
    else:
        pl.DataFrame([column]).write_parquet(path)
    write_manifest(tmp_path / "graph")
    with pytest.raises(ValueError, match=f"node_id.parquet {message}") as caught:
        _ = DiskGraph(tmp_path / "graph").node_id
    one_line(caught)
    assert "wrong-ids" in [f.code for f in validate(tmp_path / "graph").findings]


def test_string_ids_are_read_in_pieces(tmp_path):
    """A slice of a million ids reads only a part of the file."""
    ids = [f"n{number}" for number in range(200_000)]
    with GraphWriter(tmp_path / "graph", len(ids)) as writer:
        writer.set_ids(pl.Series(ids))
    found = DiskGraph(tmp_path / "graph").node_id
    assert found[150_000:150_003].tolist() == ids[150_000:150_003]
    assert found[::-70_000].tolist() == ids[::-70_000]
    assert found[torch.tensor([199_999, 0, -1])].tolist() == [ids[-1], ids[0], ids[-1]]
    assert list(found) == found.tolist() == ids


def test_a_changed_byte_of_string_ids_is_found(tmp_path):
    data = random_graph(3, 0)
    data.edge_index, data.node_id = torch.tensor([[0, 1], [1, 1]]), keep_ids(pl.Series(["ann", "bob", "eve"]))
    write_disk(data, tmp_path / "graph")
    path = tmp_path / "graph" / "node_id.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[:20] + bytes([whole[20] ^ 1]) + whole[21:])
    report = validate(tmp_path / "graph")
    assert [(f.code, f.file) for f in report.findings if f.level == "error"] == [("damaged-file", "node_id.parquet")]


@pytest.mark.parametrize("ids", [["ann", "bob", "ann"], [5, 7, 5]])
def test_check_tells_ids_that_are_there_twice(tmp_path, ids):
    data = random_graph(3, 0)
    data.edge_index, data.node_id = torch.tensor([[0, 1], [1, 1]]), keep_ids(pl.Series(ids))
    write_disk(data, tmp_path / "graph")
    assert ("duplicate-id", (2,)) in [(f.code, f.locations) for f in validate(tmp_path / "graph").findings]


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
