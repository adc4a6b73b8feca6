"""Published files that are pickles (Planetoid, ZINC, superpixels): read as PyG reads them, without running any code."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import torch
from tests.unit.data.archives import Poison
from torch_geometric.datasets import ZINC, GNNBenchmarkDataset, Planetoid

from tgnn.data.build.superpixels import read_benchmarking_gnns
from tgnn.data.build.zinc import read_zinc
from tgnn.data.readers.planetoid import read_planetoid
from tgnn.data.readers.unpickle import read_arrays, read_tensors


@pytest.fixture(autouse=True)
def nothing_is_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    assert not (tmp_path / "poisoned").exists()


class PoisonedStorage:
    """A stored tensor that has another pickle where its numbers should be."""

    def __reduce__(self):
        return torch.storage._load_from_bytes, (pickle.dumps(Poison()),)


class PoisonedTensor:
    def __reduce__(self):
        return torch._utils._rebuild_tensor_v2, (PoisonedStorage(), 0, (1,), (1,), False, None)


@pytest.mark.parametrize("read", [read_arrays, read_tensors])
@pytest.mark.parametrize(
    "content", [*(pickle.dumps(value) for value in (Poison(), print, torch.load)), b"", b"\x80\x04garbage"]
)
def test_the_unpicklers_create_arrays_and_tensors_only(read, content):
    with pytest.raises(ValueError, match="the file cannot be read"):
        read(content, "the file")


def test_unpickled_arrays_and_tensors():
    assert read_arrays(pickle.dumps({"a": np.arange(3)}), "x")["a"].tolist() == [0, 1, 2]
    stored = read_tensors(pickle.dumps(torch.arange(4)), "x")
    assert stored.load().tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="a tensor of size .* cannot be read"):
        type(stored)(stored.content, 0, (5,), (1,)).load()  # beyond its storage
    with pytest.raises(ValueError, match=r"a tensor of size \(1,\) cannot be read"):
        read_tensors(pickle.dumps(PoisonedTensor()), "x").load()


# ---- Planetoid -------------------------------------------------------------------------------------------------


def write_planetoid(folder: Path, name: str = "tiny") -> None:
    """Write seven nodes. The test file is out of order and leaves out node 5, as Citeseer's does."""
    x = scipy.sparse.csr_matrix(np.eye(7, 4, dtype=np.float32))
    y = np.eye(7, 2, dtype=np.int32) + np.eye(7, 2, k=-2, dtype=np.int32)
    parts = {
        "x": x[:2],
        "allx": x[:4],
        "tx": x[[6, 4]],
        "y": y[:2],
        "ally": y[:4],
        "ty": y[[6, 4]],
        "graph": {0: [1, 1, 0], 1: [0], 6: [4], 4: [6]},
    }
    for part, value in parts.items():
        (folder / f"ind.{name}.{part}").write_bytes(pickle.dumps(value, protocol=2))
    (folder / f"ind.{name}.test.index").write_text("6\n4\n")


def test_planetoid(tmp_path):
    write_planetoid(tmp_path)
    data = read_planetoid(tmp_path, "tiny")
    expected = torch.eye(7, 4)
    expected[5] = 0
    assert torch.equal(data.x.to_dense(), expected)
    assert data.edge_index.t().tolist() == [[1, 0], [0, 1], [6, 4], [4, 6]]  # no self-loops, no duplicates
    assert data.train_mask.nonzero().flatten().tolist() == [0, 1]
    assert data.test_mask.nonzero().flatten().tolist() == [4, 6]
    (tmp_path / "ind.tiny.graph").write_bytes(pickle.dumps(Poison()))
    with pytest.raises(ValueError, match="ind.tiny.graph cannot be read: .*only arrays are allowed"):
        read_planetoid(tmp_path, "tiny")


@pytest.mark.parametrize("name", ["Cora", "Citeseer", "Pubmed"])
def test_the_real_planetoid_as_pyg_reads_it(name, tmp_path, real_data):
    raw = real_data(f"planetoid/{name}/raw")
    ours = read_planetoid(raw, name.lower())
    shutil.copytree(raw, tmp_path / name / "raw")
    theirs = Planetoid(str(tmp_path), name)[0]
    assert torch.equal(ours.x.to_dense(), theirs.x)
    for part in ("y", "edge_index", "train_mask", "val_mask", "test_mask"):
        assert torch.equal(ours[part], theirs[part]), part


# ---- ZINC ------------------------------------------------------------------------------------------------------

COUNTS = {"train": 7, "val": 4, "test": 3}
CHOSEN = {"train": "5,0,3\n", "val": "1,2\n", "test": "2\r\n"}


def molecule(seed: int) -> dict[str, object]:
    generator = torch.Generator().manual_seed(seed)
    n = 2 + seed % 5
    half = torch.randint(0, 4, (n, n), generator=generator, dtype=torch.int32).triu(1)
    half[0, 1] = 1
    return {
        "num_atom": n,
        "atom_type": torch.randint(0, 28, (n,), generator=generator, dtype=torch.int32),
        "bond_type": half + half.t(),
        "logP_SA_cycle_normalized": torch.randn(1, generator=generator),
    }


def write_zinc(folder: Path, protocol: int = 3) -> None:
    folder.mkdir(exist_ok=True)
    for number, (part, count) in enumerate(COUNTS.items()):
        molecules = [molecule(100 * number + i) for i in range(count)]
        (folder / f"{part}.pickle").write_bytes(pickle.dumps(molecules, protocol=protocol))
        (folder / f"{part}.index").write_text(CHOSEN[part])


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_zinc_as_pyg_reads_it(tmp_path, protocol):
    write_zinc(tmp_path / "raw", protocol)
    ours = read_zinc(tmp_path / "raw")
    theirs = [data for part in COUNTS for data in ZINC(str(tmp_path), True, part)]
    assert len(ours) == len(theirs) == 6
    for a, b in zip(ours, theirs):
        assert torch.equal(a.x, b.x)
        assert torch.equal(a.edge_index, b.edge_index)
        assert torch.equal(a.edge_attr, b.edge_attr.view(-1, 1))
        assert torch.equal(a.y, b.y)
    assert ours.split_codes.tolist() == [0, 0, 0, 1, 1, 2]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("val.index", b"0,9\n", "contains the index 9, but there are 4 molecules"),
        ("val.index", b"a,b\n", "must contain integers separated by commas"),
        ("val.pickle", pickle.dumps({"a": 1}), "must contain a list of molecules, got dict"),
        ("val.pickle", pickle.dumps([{"atom_type": 1}] * 4), "molecule 1 has no tensor 'atom_type'"),
        ("val.pickle", pickle.dumps([molecule(0), Poison()]), "it contains posix.system, but only tensors"),
        (
            "val.pickle",
            pickle.dumps([molecule(0) | {"bond_type": torch.ones(3, 2)}] * 4),
            r"molecule 1 has 2 atoms, but bond_type has shape \[3, 2\]",
        ),
    ],
)
def test_wrong_files_of_zinc_are_named(tmp_path, name, content, message):
    write_zinc(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_zinc(tmp_path)


# ---- superpixels -----------------------------------------------------------------------------------------------


def superpixel_graph(nodes: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(nodes)
    return {
        "x": torch.rand(nodes, 1, generator=generator),
        "pos": torch.rand(nodes, 2, generator=generator),
        "edge_index": torch.randint(nodes, (2, 3 * nodes), generator=generator),
        "edge_attr": torch.rand(3 * nodes, generator=generator),
        "y": torch.tensor([nodes % 10]),
    }


def test_superpixels_as_pyg_reads_them(tmp_path):
    path = tmp_path / "MNIST/raw/MNIST_v2.pt"
    path.parent.mkdir(parents=True)
    torch.save([[superpixel_graph(4), superpixel_graph(5)], [superpixel_graph(6)], [superpixel_graph(7)]], path)
    ours = read_benchmarking_gnns(path)
    theirs = [graph for part in ("train", "val", "test") for graph in GNNBenchmarkDataset(tmp_path, "MNIST", part)]
    assert len(ours) == len(theirs) == 4
    for one, other in zip(ours, theirs):
        assert torch.equal(one.x, torch.cat([other.x, other.pos], dim=1))
        assert torch.equal(one.edge_index, other.edge_index)
        assert torch.equal(one.edge_attr, other.edge_attr.reshape(-1, 1))
        assert torch.equal(one.y, other.y)
    assert ours.stored_split().train.tolist() == [0, 1]


@pytest.mark.parametrize("content", [[[], [], [Poison()]], [[]]])
def test_wrong_files_of_superpixels_are_named(tmp_path, content):
    torch.save(content, tmp_path / "MNIST_v2.pt")
    with pytest.raises(ValueError, match=r"MNIST_v2\.pt is not a file of"):
        read_benchmarking_gnns(tmp_path / "MNIST_v2.pt")
