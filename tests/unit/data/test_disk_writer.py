"""Writing graphs on disk: any pieces, bounded memory, a complete folder or none, and generated graphs."""

from __future__ import annotations

import errno
import shutil
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from tests import warm
from tests.unit.data.disks import by_destination, random_graph

from tgnn.data import load
from tgnn.data.convert import convert
from tgnn.data.convert import write as write_disk
from tgnn.data.dataset_info import DatasetInfo
from tgnn.data.on_disk import DiskGraph, GraphWriter
from tgnn.data.on_disk import generate as generating
from tgnn.data.on_disk.edge_sort import sort_edges
from tgnn.data.on_disk.generate import _Plan, generate
from tgnn.utils.io import claim_folder
from tgnn.utils.memory_map import as_tensor, create_memmap, open_memmap


@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize(("pieces", "memory"), [(1, 2**30), (7, 2**30), (7, 64 * 50), (3, 64 * 7), (2, 1)])
def test_the_same_graph_from_any_pieces_and_any_memory(tmp_path, merge, pieces, memory):
    """With memory for 7 edges, buckets are split repeatedly, down to single nodes that have more edges."""
    data = random_graph()
    with GraphWriter(tmp_path / "graph", data.num_nodes, memory=memory, merge=merge) as writer:
        for edges, nodes in zip(data.edge_index.chunk(pieces, 1), torch.arange(data.num_nodes).chunk(pieces)):
            writer.add_edges(*edges)
            writer.add_nodes(data.x[nodes], data.y[nodes])
    graph = DiskGraph(tmp_path / "graph")
    expected = by_destination(data.edge_index)
    if merge:
        expected = torch.unique(data.edge_index.flip(0), dim=1).flip(0)
    assert torch.equal(graph.to_memory().edge_index, expected)
    assert graph.num_edges == expected.size(1)
    assert torch.equal(graph.rows_between(0, 300), data.x)
    files = ["col.npy", "graph.json", "rowptr.npy", "x.npy", "y.npy"]
    assert sorted(path.name for path in (tmp_path / "graph").iterdir()) == files


@pytest.mark.parametrize("merge", [False, True])
def test_node_indices_above_32_bits(tmp_path, merge):
    """Only the sorting is tested because a graph of 2**31 nodes has 17 GB of pointers."""
    nodes, begin = 2**33, 2**33 - 1000
    random = np.random.default_rng(0)
    source, target = random.integers(0, nodes, 5000), random.integers(begin, nodes, 5000)
    source[7:9], target[7:9] = source[7], target[7]
    np.stack([source, target], axis=1).tofile(tmp_path / "pairs")
    counts, found = (np.concatenate(parts) for parts in zip(*sort_edges(tmp_path / "pairs", nodes, 300, merge, begin)))
    pairs = np.stack([np.repeat(np.arange(begin, nodes), counts), found], axis=1)
    expected = np.stack([target, source], axis=1)
    expected = np.unique(expected, axis=0) if merge else expected[np.argsort(target, kind="stable")]
    assert found.dtype == np.int64
    assert np.array_equal(pairs, expected)
    assert not list(tmp_path.iterdir())


def test_memory_is_bounded(tmp_path):
    """4 million edges are 32 MB as pairs, and far more in one sort; the writer is given 16 MB."""
    program = """if True:
        import resource, sys
        import numpy as np
        from tgnn.data.on_disk import GraphWriter
        from tgnn.ops import cpp_build as native
        native.load()
        def most():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        random = np.random.default_rng(0)
        before = most()
        with GraphWriter(sys.argv[1], 100_000, memory=int(sys.argv[2]), merge=True) as writer:
            for _ in range(40):
                source = random.integers(0, 100_000, 100_000, dtype=np.int32)
                target = random.integers(0, 1500, 100_000, dtype=np.int32)  # all in the first bucket
                writer.add_edges(source, target)
                writer.add_nodes(x=np.zeros((2500, 200), dtype=np.float32))
        print(most() - before)"""
    used = []
    for memory in (2**24, 2**30):
        run = warm.run(program, str(tmp_path / str(memory)), str(memory), folder=tmp_path)
        assert run.returncode == 0, run.stderr
        used.append(int(run.stdout))
    assert used[0] < 48 * 1024  # KiB
    assert DiskGraph(tmp_path / str(2**24)).hash == DiskGraph(tmp_path / str(2**30)).hash


def test_any_integer_type(tmp_path):
    """An infinite feature is stored, and ``tgnn data check`` reports it."""
    with GraphWriter(tmp_path / "graph", np.int64(4)) as writer:
        writer.add_nodes(x=np.full((4, 2), np.inf), y=np.eye(4, dtype=int), part=np.array([0.0, 1.0, 2.0, 3.0]))
        writer.add_edges([], [])
        writer.add_edges(np.array([0, 1], dtype=np.uint64), np.array([1, 2], dtype=np.uint8))
        writer.set_ids(np.array([7, 5, 3, 1], dtype=np.uint64))
        assert writer.sort_edges().index.tolist() == writer.sort_edges().index.tolist() == [0, 1]
        with pytest.raises(RuntimeError, match=r"No edges can be added after sort_edges\(\)"):
            writer.add_edges([0], [1])
    graph = DiskGraph(tmp_path / "graph")
    assert graph.info.target == "multi-label"
    assert graph.node_id.tolist() == [7, 5, 3, 1]
    assert graph.stored_split().test.tolist() == [3]


# ---- a complete folder or none ----------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interrupted_write_leaves_the_old_graph_or_nothing(tmp_path, error):
    def write(stop):
        with GraphWriter(tmp_path / "graph", 3, overwrite=True) as writer:
            writer.add_nodes(x=np.eye(3))
            writer.add_edges([0, 1], [1, 2])
            assert (tmp_path / ".graph.part").is_dir()
            if stop:
                raise error

    with pytest.raises(error):
        write(stop=True)
    assert not list(tmp_path.iterdir())
    write_disk(random_graph(), tmp_path / "graph")
    before = DiskGraph(tmp_path / "graph").hash
    with pytest.raises(error):
        write(stop=True)
    assert DiskGraph(tmp_path / "graph").hash == before
    write(stop=False)
    assert DiskGraph(tmp_path / "graph").num_nodes == 3
    assert [path.name for path in tmp_path.iterdir()] == ["graph"]
    with pytest.raises(FileExistsError, match="Use --force"):
        write_disk(random_graph(), tmp_path / "graph")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (None, "", r"is not a graph on disk \(it is a file\)"),
        ("chapter.tex", "years of work", r"is not a graph on disk \(it has no graph.json\)"),
        ("graph.json", '{"format": "other"}', "graph.json has another format"),
    ],
)
def test_other_files_are_never_overwritten(tmp_path, name, content, message):
    path = tmp_path / "mine" if name is None else tmp_path / "mine" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    with pytest.raises(FileExistsError, match=f"{message}.*It is not overwritten. Choose another folder"):
        write_disk(random_graph(), tmp_path / "mine", overwrite=True)
    assert path.read_text() == content
    path.unlink()
    write_disk(random_graph(), tmp_path / "mine")  # an empty or missing folder


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_graph_with_other_files_is_never_overwritten(tmp_path, when):
    write_disk(random_graph(), tmp_path / "graph")
    before, notes = DiskGraph(tmp_path / "graph").hash, tmp_path / "graph" / "notes.txt"

    def overwrite():
        with GraphWriter(tmp_path / "graph", 3, overwrite=True) as writer:
            notes.write_text("mine")
            writer.add_nodes(x=np.ones((3, 2)))

    if when == "before":
        notes.write_text("mine")
    with pytest.raises(FileExistsError, match=r"other files than a graph \(notes.txt\). It is not overwritten"):
        overwrite()
    assert notes.read_text() == "mine"
    assert DiskGraph(tmp_path / "graph").hash == before
    assert [path.name for path in tmp_path.iterdir()] == ["graph"]


def test_the_source_is_never_overwritten(tmp_path):
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "edges.csv").write_text("source,target\n1,2\n2,3\n")
    (folder / "graph.json").write_text("{}")
    for source in (folder, folder / "edges.csv"):
        with pytest.raises(ValueError, match="own cannot be written.*choose another"):
            convert(str(source), tmp_path / "own" / ".." / "own", overwrite=True)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["edges.csv", "graph.json", "own"]


def test_only_one_graph_in_memory_is_written_to_a_folder(tmp_path):
    write_disk(random_graph(), tmp_path / "graph")
    for data, message in (
        (load(tmp_path / "graph"), "is a graph on disk already"),
        (load("digits-graphs"), "many graphs"),
    ):
        with pytest.raises(ValueError, match=message):
            write_disk(data, tmp_path / "other")
    assert [path.name for path in tmp_path.iterdir()] == ["graph"]


def test_a_folder_of_another_process_is_an_error(tmp_path):
    lock = claim_folder(tmp_path / ".graph.part")
    with pytest.raises(FileExistsError, match="another process is writing there"):
        write_disk(random_graph(), tmp_path / "graph", overwrite=True)
    lock.release()  # as when the process was killed
    write_disk(random_graph(), tmp_path / "graph")
    assert [path.name for path in tmp_path.iterdir()] == ["graph"]


def test_too_little_space_is_an_error_before_anything_is_written(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(2**20, 2**20 - 1000, 1000))
    with pytest.raises(OSError, match=r"not enough disk space: 0.06 MiB needed, 0.00 MiB free") as caught:
        write_disk(random_graph(), tmp_path / "graph")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(tmp_path / "graph"))
    with pytest.raises(OSError, match="graph.npy"):
        create_memmap(tmp_path / "graph.npy", "float32", (1000, 3))
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_an_error_and_not_a_signal(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full, raising=False)  # not every system has it
    with pytest.raises(OSError, match="a.npy") as caught:
        create_memmap(tmp_path / "a.npy", "float32", (1000, 3))
    assert caught.value.errno == errno.ENOSPC
    assert "0.01 MiB needed" in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize(("file", "edges"), [("pairs-0.edges", 90_000), ("col.npy", 9)])
def test_a_disk_that_fills_up_leaves_nothing(tmp_path, file, edges):
    """Few edges stay in the buffer of a file until it is closed."""

    def write():
        with GraphWriter(tmp_path / "graph", 640, memory=2**16) as writer:
            (writer.part / file).symlink_to("/dev/full")
            writer.add_edges(np.arange(edges) % 640, np.arange(edges) % 40)

    with pytest.raises(OSError, match="No space left on device") as caught:
        write()
    assert caught.value.errno == errno.ENOSPC
    assert not list(tmp_path.iterdir())


# ---- invalid arguments ------------------------------------------------------------------------------------------

X, EYE = np.ones((2, 2), dtype=np.float32), np.eye(4)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"x": X}, ValueError, "x.npy has 2 rows, but the graph has 4 nodes"),
        ({"x": [X, X[:, :1]]}, ValueError, r"float32 \[rows, 2\], but the next piece has float32 \[rows, 1\]"),
        ({"x": np.array([["a"]])}, ValueError, "must be numbers"),
        ({"x": np.ones(4)}, ValueError, r"x.npy must be numbers \[nodes, columns\], got float64 \[4\]"),
        ({"x": EYE * 1e300}, ValueError, r"x.npy has the value 1e\+300, which does not fit into float32"),
        ({"x": np.full((4, 1), 2**63, dtype=np.uint64)}, ValueError, "x.npy has the value 9223372036854775808.*int64"),
        ({"part": np.array([1, 2, 3, 300])}, ValueError, "part.npy has the value 300, which does not fit into uint8"),
        ({"part": np.array([1, 2, 3, 4])}, ValueError, r"part.npy has the value 4, but must be 0 \(no set\)"),
        ({"part": np.array([1, 2, np.nan, 3])}, ValueError, "part.npy has the value nan"),
        ({"part": EYE}, ValueError, r"part.npy must be numbers \[nodes\], got float64 \[4, 4\]"),
        ({"edges": (np.array([0]), np.array([4]))}, ValueError, "the node 4, but the graph has nodes 0 to 3"),
        ({"edges": (np.array([-1]), np.array([3]))}, ValueError, "the node -1, but"),
        ({"edges": (np.array([0]), np.array([1, 2]))}, ValueError, "must have the same length"),
        ({"edges": (np.array([0.9, 1.5]), np.array([1, 2]))}, TypeError, r"must be integers, got 0.9 \(float64\)"),
        ({"ids": torch.tensor([0.5, 1, 2, 3])}, TypeError, "ids must be integers or strings, got Float32"),
        ({"ids": pl.Series(["a", "b", None, "c"])}, ValueError, "Node 2 has no id"),
        ({"ids": pl.Series(["a", "b"])}, ValueError, "There are 2 ids, but the graph has 4 nodes"),
        ({"num_nodes": np.int64(-3)}, ValueError, "num_nodes must be a non-negative integer, got .*-3"),
        ({"folder": "no/graph"}, FileNotFoundError, "no does not exist"),
    ],
)
def test_invalid_arguments(tmp_path, given, error, message):
    def write(folder="graph", num_nodes=4, edges=None, ids=None, **nodes):
        with GraphWriter(tmp_path / folder, num_nodes) as writer:
            for name, values in nodes.items():
                for piece in values if isinstance(values, list) else [values]:
                    writer.add_nodes(**{name: piece})
            if edges is not None:
                writer.add_edges(*edges)
            if ids is not None:
                writer.set_ids(ids)

    with pytest.raises(error, match=message):
        write(**given)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"outputs": 2}, "y.npy has the class 3, but there are 2 classes .*, according to info"),
        ({"target": "zzz"}, "target\n  Input should be 'classification', 'multi-label' or 'regression'"),
        ({"target": "regression", "outputs": 3}, "y.npy has 1 targets per node, but there must be 3"),
    ],
)
def test_info_must_agree_with_the_labels(tmp_path, change, message):
    data = random_graph()
    data.info = replace(DatasetInfo("a", "node", "classification", "accuracy", 4, ""), **change)
    with pytest.raises(ValueError, match=message):
        write_disk(data, tmp_path / "graph")
    assert not list(tmp_path.iterdir())


def test_memory_maps(tmp_path):
    array = create_memmap(tmp_path / "a.npy", "int64", (1000, 2))
    assert not array.any()
    assert (tmp_path / "a.npy").stat().st_blocks * 512 >= 16_000  # the space is allocated
    array[:] = 7
    again = open_memmap(tmp_path / "a.npy")
    assert np.array_equal(again, np.full((1000, 2), 7))
    assert as_tensor(again).data_ptr() == again.ctypes.data
    with pytest.raises(ValueError, match="read-only"):
        again[0] = 1
    assert create_memmap(tmp_path / "b.npy", "float16", (0, 5)).shape == (0, 5)


# ---- generated graphs ------------------------------------------------------------------------------------------


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
