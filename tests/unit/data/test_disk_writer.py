"""Writing a graph piece by piece: the same whatever the pieces, in little memory, whole or not at all."""

from __future__ import annotations

import errno
import io
import shutil
from collections import namedtuple
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch
from tests import warm
from tests.unit.data.disks import by_destination, random_graph

from tgnn.data.convert import convert
from tgnn.data.dataset_info import DatasetInfo
from tgnn.data.on_disk import DiskGraph, GraphWriter, layout
from tgnn.data.on_disk.buckets import EdgeBuckets
from tgnn.data.on_disk.from_memory import write_disk
from tgnn.data.on_disk.string_ids import ParquetStringIds, write_string_ids
from tgnn.utils.memory_map import as_tensor, create_memmap, open_memmap, shorten


def write(folder, data, pieces=1, **options):
    with GraphWriter(folder, data.num_nodes, **options) as writer:
        for edges, nodes in zip(data.edge_index.chunk(pieces, 1), torch.arange(data.num_nodes).chunk(pieces)):
            writer.add_edges(*edges)
            writer.add_nodes(data.x[nodes], data.y[nodes])
    return DiskGraph(folder)


@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize(("pieces", "memory"), [(1, 2**30), (7, 2**30), (7, 64 * 50), (3, 64 * 7), (2, 1)])
def test_the_same_in_any_pieces_and_any_memory(tmp_path, merge, pieces, memory):
    """With room for 7 edges, buckets are cut again and again, down to single nodes that have more."""
    data = random_graph()
    graph = write(tmp_path / "graph", data, pieces, memory=memory, merge=merge)
    expected = by_destination(data.edge_index)
    if merge:
        expected = torch.unique(data.edge_index.flip(0), dim=1).flip(0)
    assert torch.equal(graph.to_memory().edge_index, expected)
    assert graph.num_edges == expected.size(1)
    assert torch.equal(graph.rows_between(0, 300), data.x)
    assert sorted(path.name for path in (tmp_path / "graph").iterdir()) == [
        "col.npy", "graph.json", "rowptr.npy", "x.npy", "y.npy",
    ]  # fmt: skip


def test_the_same_bytes_again(tmp_path):
    for name in ("one", "other"):
        write_disk(random_graph(), tmp_path / name)
    for path in (tmp_path / "one").iterdir():
        if path.name != "graph.json":
            assert path.read_bytes() == (tmp_path / "other" / path.name).read_bytes()
    assert DiskGraph(tmp_path / "one").hash == DiskGraph(tmp_path / "other").hash


@pytest.mark.parametrize("merge", [False, True])
def test_numbers_of_nodes_past_32_bits(tmp_path, merge):
    """Only the sorting is tested because a graph of 2**31 nodes has 17 GB of pointers."""
    assert layout.node_type(2**31) == np.int64
    nodes, begin = 2**33, 2**33 - 1000
    random = np.random.default_rng(0)
    source, target = random.integers(0, nodes, 5000), random.integers(begin, nodes, 5000)
    source[7:9], target[7:9] = source[7], target[7]
    buckets = EdgeBuckets(tmp_path, "all", begin, nodes, nodes, np.dtype(np.int64))
    buckets.add(source[:3000], target[:3000])
    buckets.add(source[3000:], target[3000:])
    counts, sources = [], []
    buckets.sort(lambda count, some: (counts.append(count), sources.append(some)), 300, merge)
    counts, found = np.concatenate(counts), np.concatenate(sources)
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


# ---- whole or not at all -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
@pytest.mark.parametrize("when", ["nodes", "sorting", "end"])
def test_a_stop_in_the_middle_leaves_nothing(tmp_path, monkeypatch, error, when):
    def stop(*_: object, **__: object) -> None:
        assert (tmp_path / ".graph.part").is_dir()
        raise error

    data = random_graph()
    places = {"nodes": (GraphWriter, "add_nodes"), "sorting": (EdgeBuckets, "_sort"), "end": (layout, "write_manifest")}
    monkeypatch.setattr(*places[when], stop)
    with pytest.raises(error):
        write_disk(data, tmp_path / "graph")
    assert not list(tmp_path.iterdir())


def test_a_failed_write_leaves_the_old_graph(tmp_path, monkeypatch):
    write_disk(random_graph(), tmp_path / "graph")
    before = DiskGraph(tmp_path / "graph").hash
    with pytest.raises(FileExistsError, match="Use --force"):
        write_disk(random_graph(seed=1), tmp_path / "graph")
    with monkeypatch.context() as patch:
        patch.setattr(layout, "write_manifest", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            write_disk(random_graph(seed=1), tmp_path / "graph", overwrite=True)
    assert DiskGraph(tmp_path / "graph").hash == before
    write_disk(random_graph(seed=1), tmp_path / "graph", overwrite=True)
    assert DiskGraph(tmp_path / "graph").hash != before
    assert [path.name for path in tmp_path.iterdir()] == ["graph"]


def test_what_is_no_graph_is_never_written_over(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("years of work")
    (tmp_path / "file").write_text("")
    for name in ("thesis", "file"):
        with pytest.raises(
            FileExistsError, match=r"is not a graph on disk \(it .*It is not overwritten. Choose another"
        ):
            write_disk(random_graph(), tmp_path / name, overwrite=True)
    assert (tmp_path / "thesis" / "chapter.tex").exists()
    (tmp_path / "empty").mkdir()
    write_disk(random_graph(), tmp_path / "empty")


@pytest.mark.parametrize("text", ['{"nodes": [], "links": []}', "[]", "not even JSON", '{"format": "other"}'])
def test_a_graph_json_of_another_program_is_never_written_over(tmp_path, text):
    """Many programs call a file so; those beside it are the user's."""
    folder = tmp_path / "web"
    folder.mkdir()
    (folder / "graph.json").write_text(text)
    (folder / "nodes.csv").write_text("id\n1\n")
    with pytest.raises(FileExistsError, match=r"graph.json has another format.*Choose another folder"):
        write_disk(random_graph(), folder, overwrite=True)
    assert (folder / "graph.json").read_text() == text
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["graph.json", "nodes.csv", "web"]


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_files_beside_a_graph_are_never_taken_away(tmp_path, when):
    write_disk(random_graph(), tmp_path / "graph")
    before = DiskGraph(tmp_path / "graph").hash
    notes = tmp_path / "graph" / "notes.txt"

    def write_over():
        with GraphWriter(tmp_path / "graph", 3, overwrite=True) as writer:
            notes.write_text("mine")
            writer.add_nodes(x=np.ones((3, 2)))

    if when == "before":
        notes.write_text("mine")
    with pytest.raises(
        FileExistsError, match=r"contains other files than a graph \(notes.txt\). It is not overwritten"
    ):
        write_over()
    assert notes.read_text() == "mine"
    assert DiskGraph(tmp_path / "graph").hash == before
    assert [path.name for path in tmp_path.iterdir()] == ["graph"]


def test_what_is_read_is_not_written(tmp_path):
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "edges.csv").write_text("source,target\n1,2\n2,3\n")
    (folder / "graph.json").write_text("{}")
    for source in (folder, folder / "edges.csv"):
        with pytest.raises(ValueError, match="own cannot be written.*choose another"):
            convert(str(source), tmp_path / "own" / ".." / "own", overwrite=True)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["edges.csv", "graph.json", "own"]


def test_a_part_of_another_process_is_an_error(tmp_path):
    (tmp_path / ".graph.part").mkdir()
    with pytest.raises(FileExistsError, match="Another process is writing the graph, or a process was killed"):
        write_disk(random_graph(), tmp_path / "graph")
    write_disk(random_graph(), tmp_path / "graph", overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["graph"]


def test_too_little_space_is_an_error_before_anything_is_written(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(2**20, 2**20 - 1000, 1000))
    with pytest.raises(OSError, match=r"not enough disk space: 0.06 MiB needed, 0.00 MiB free") as caught:
        write_disk(random_graph(), tmp_path / "graph")
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(tmp_path / "graph")
    assert not list(tmp_path.iterdir())
    with pytest.raises(OSError, match="graph.npy"):
        create_memmap(tmp_path / "graph.npy", "float32", (1000, 3))
    assert not list(tmp_path.iterdir())


def test_a_disk_that_fills_up_is_an_error_and_not_the_end(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full, raising=False)  # not every system has it
    with pytest.raises(OSError, match="a.npy") as caught:
        create_memmap(tmp_path / "a.npy", "float32", (1000, 3))
    assert caught.value.errno == errno.ENOSPC
    assert "0.01 MiB needed" in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("when", ["adding", "closing"])
def test_a_disk_that_fills_up_with_edges_leaves_nothing(tmp_path, monkeypatch, when):
    """What a file could not write it tries to write again when it is closed."""
    opened = []

    class Full(io.BytesIO):
        def write(self, data):
            if when == "adding" and len(opened) == 5:
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(data)

        def close(self):
            already, _ = self.closed, super().close()
            if not already:
                raise OSError(errno.ENOSPC, "No space left on device, when closing")

    def open_full(self, number):
        if number not in self._files:
            (self.folder / f"{number}.edges").touch()
            opened.append(Full())
            self._files[number] = opened[-1]
        return self._files[number]

    monkeypatch.setattr(EdgeBuckets, "_file", open_full)
    with pytest.raises(OSError, match="No space left on device" + "$" * (when == "adding")) as caught:
        write_disk(random_graph(), tmp_path / "graph")
    assert caught.value.errno == errno.ENOSPC
    assert len(opened) >= 5
    assert all(file.closed for file in opened)
    assert not list(tmp_path.iterdir())


def test_pieces_that_do_not_fit_together(tmp_path):
    def writing(*pieces, edges=None):
        with GraphWriter(tmp_path / "graph", 10) as writer:
            for piece in pieces:
                writer.add_nodes(**piece)
            if edges is not None:
                writer.add_edges(*edges)

    x = np.ones((6, 2), dtype=np.float32)
    with pytest.raises(ValueError, match="x.npy has 6 rows, but the graph has 10 nodes"):
        writing({"x": x})
    with pytest.raises(ValueError, match="has 10 rows, but more were added"):
        writing({"x": x}, {"x": x})
    with pytest.raises(ValueError, match=r"has float32 \[rows, 2\], but the next piece has float32 \[rows, 3\]"):
        writing({"x": x}, {"x": np.ones((4, 3), dtype=np.float32)})
    with pytest.raises(ValueError, match="must be numbers"):
        writing({"x": np.array([["a"]])})
    with pytest.raises(ValueError, match="has the node 10, but the graph has nodes 0 to 9"):
        writing(edges=(np.array([0]), np.array([10])))
    with pytest.raises(ValueError, match="must have the same length"):
        writing(edges=(np.array([0]), np.array([1, 2])))
    with pytest.raises(FileNotFoundError, match="does not exist"):
        GraphWriter(tmp_path / "no" / "graph", 3)
    assert not list(tmp_path.iterdir())


EYE = np.eye(4)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"x": np.ones(4)}, ValueError, r"x.npy must be \[nodes, features\], got \[4\]. For one feature"),
        ({"x": EYE * 1e300}, ValueError, r"x.npy has 1e\+300, which is too large for float32"),
        ({"x": -EYE * 1e300}, ValueError, r"x.npy has -1e\+300"),
        ({"x": torch.eye(4, dtype=torch.float64) * 1e39}, ValueError, r"x.npy has 1e\+39"),
        ({"x": EYE, "y": EYE[0] * 1e300}, ValueError, r"y.npy has 1e\+300"),
        ({"x": np.full((4, 1), 2**63, dtype=np.uint64)}, ValueError, "x.npy has 9223372036854775808.*int64"),
        ({"x": EYE, "part": np.array([1, 2, 3, 300])}, ValueError, "part.npy has the value 300, but must be 0 "),
        ({"x": EYE, "part": np.array([1, 2, 3, 4])}, ValueError, "part.npy has the value 4, but"),
        ({"x": EYE, "part": np.array([1, 2, 3, -1])}, ValueError, "part.npy has the value -1, but"),
        ({"x": EYE, "part": np.array([1, 2, 3, 256])}, ValueError, "part.npy has the value 256, but"),
        ({"x": EYE, "part": np.array([1, 2, 3, 0.5])}, ValueError, "part.npy has the value 0.5, but"),
        ({"x": EYE, "part": np.array([1, 2, np.nan, 3])}, ValueError, "part.npy has the value nan, but"),
        ({"x": EYE, "part": EYE}, ValueError, r"part.npy must have one number per node, got \[4, 4\]"),
        ({"edges": (np.array([0.9, 1.5]), np.array([1, 2]))}, TypeError, r"must be integers, got 0.9 \(float64\)"),
        ({"edges": (np.array([0, 1]), np.array([1.0, 2.7]))}, TypeError, r"must be integers, got 1.0 \(float64\)"),
        ({"edges": (np.array([True]), np.array([1]))}, TypeError, r"must be integers, got True \(bool\)"),
        ({"ids": torch.tensor([0.5, 1, 2, 3])}, TypeError, "ids must be integers or strings, got Float32"),
        ({"ids": pl.Series([1, None, 3, 4])}, ValueError, "Node 1 has no id"),
        ({"ids": pl.Series(["a", "b", None, "c"])}, ValueError, "Node 2 has no id"),
        ({"ids": np.array([0, 1, 2, 2**64 - 1], dtype=np.uint64)}, ValueError, "has 18446744073709551615"),
    ],
)
def test_what_cannot_be_kept_is_refused(tmp_path, given, error, message):
    def writing(edges=None, ids=None, **nodes):
        with GraphWriter(tmp_path / "graph", 4) as writer:
            writer.add_nodes(**nodes)
            if edges is not None:
                writer.add_edges(*edges)
            if ids is not None:
                writer.set_ids(ids)

    with pytest.raises(error, match=message):
        writing(**given)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("count", "error"), [(4.0, TypeError), ("4", TypeError), (-3, ValueError), (np.int64(-3), ValueError)]
)
def test_numbers_of_nodes_that_are_none(tmp_path, count, error):
    with pytest.raises(error, match=r"num_nodes must .*, got '?-?\d"):
        GraphWriter(tmp_path / "graph", count)
    assert not list(tmp_path.iterdir())


def test_whatever_type_of_whole_numbers(tmp_path):
    """Numpy's own as well; an infinite feature is kept: a check tells it."""
    with GraphWriter(tmp_path / "graph", np.int64(4)) as writer:
        writer.add_nodes(x=np.full((4, 2), np.inf), part=np.array([0.0, 1.0, 2.0, 3.0]))
        writer.add_edges([], [])
        writer.add_edges(np.array([0, 1], dtype=np.uint64), np.array([1, 2], dtype=np.uint8))
        writer.set_ids(np.array([7, 5, 3, 1], dtype=np.uint64))
    graph = DiskGraph(tmp_path / "graph")
    assert graph.in_edges.index.tolist() == [0, 1]
    assert graph.node_id.tolist() == [7, 5, 3, 1]
    assert graph.stored_split().test.tolist() == [3]


@pytest.mark.parametrize("place", [1, np.int64(1), np.uint8(1), torch.tensor(1), np.array(-2), -2])
def test_a_word_by_any_number(tmp_path, place):
    write_string_ids(pl.Series(["ann", "bob", "eve"]), tmp_path / "ids.parquet")
    words = ParquetStringIds(tmp_path / "ids.parquet")
    assert words[place] == "bob"
    assert words[[]].tolist() == []
    assert words[torch.tensor([True, False, True])].tolist() == ["ann", "eve"]
    for wrong in (1.5, np.array([0.5]), "bob", 3, np.int64(-4)):
        with pytest.raises(IndexError):
            words[wrong]


def test_info_must_agree_with_the_labels(tmp_path):
    """Else the folder could be written and not opened."""
    for change, message in (
        ({"outputs": 2}, "y.npy has the class 3, but there are 2 classes .*, according to info"),
        ({"target": "zzz"}, "target\n  Input should be 'classes', 'labels' or 'number'"),
        ({"target": "number", "outputs": 3}, "y.npy has 1 targets per node, but there must be 3"),
    ):
        data = random_graph()
        data.info = replace(DatasetInfo("a", "node", "classes", "accuracy", 4, ""), **change)
        with pytest.raises(ValueError, match=message):
            write_disk(data, tmp_path / "graph")
    assert not list(tmp_path.iterdir())


def test_mapped_arrays(tmp_path):
    array = create_memmap(tmp_path / "a.npy", "int64", (1000, 2))
    assert not array.any()
    array[:] = np.arange(2000).reshape(1000, 2)
    array.flush()
    assert (tmp_path / "a.npy").stat().st_blocks * 512 >= 16_000  # it takes its space
    again = open_memmap(tmp_path / "a.npy")
    assert np.array_equal(again, np.load(tmp_path / "a.npy"))
    with pytest.raises(ValueError, match="read-only"):
        again[0] = 1
    assert as_tensor(again).data_ptr() == again.ctypes.data
    shorten(tmp_path / "a.npy", 7)
    assert np.array_equal(np.load(tmp_path / "a.npy"), np.arange(14).reshape(7, 2))
    assert create_memmap(tmp_path / "b.npy", "float16", (0, 5)).shape == (0, 5)
