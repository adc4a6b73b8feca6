"""The official ZINC files: as PyG reads them, and nothing in them is run."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import torch
from torch_geometric.datasets import ZINC

from tgnn.data.readers.unpickle import read_tensors
from tgnn.data.readers.zinc_official import read_zinc

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


def write(folder: Path, protocol: int = 3) -> None:
    folder.mkdir(exist_ok=True)
    for number, (part, count) in enumerate(COUNTS.items()):
        molecules = [molecule(100 * number + i) for i in range(count)]
        (folder / f"{part}.pickle").write_bytes(pickle.dumps(molecules, protocol=protocol))
        (folder / f"{part}.index").write_text(CHOSEN[part])


@pytest.mark.parametrize("protocol", [2, 3, 4])
@pytest.mark.parametrize("subset", [True, False])
def test_it_reads_as_pyg_reads_it(tmp_path, subset, protocol):
    write(tmp_path / "raw", protocol)
    ours = read_zinc(tmp_path / "raw", subset)
    theirs = [data for part in COUNTS for data in ZINC(str(tmp_path), subset, part)]
    assert len(ours) == len(theirs) == (6 if subset else 14)
    for a, b in zip(ours, theirs):
        assert torch.equal(a.x, b.x)
        assert torch.equal(a.edge_index, b.edge_index)
        assert torch.equal(a.edge_attr, b.edge_attr.view(-1, 1))
        assert torch.equal(a.y, b.y)
    split = ours.stored_split()
    assert [len(split.train), len(split.val), len(split.test)] == ([3, 2, 1] if subset else [7, 4, 3])


class Poison:
    def __reduce__(self):
        import os

        return os.system, ("touch poisoned",)


class PoisonedStorage:
    """What looks like a stored tensor, but has another pickle where its numbers should be."""

    def __reduce__(self):
        return torch.storage._load_from_bytes, (pickle.dumps(Poison()),)


class PoisonedTensor:
    def __reduce__(self):
        return torch._utils._rebuild_tensor_v2, (PoisonedStorage(), 0, (1,), (1,), False, None)


def test_a_poisoned_pickle_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    (tmp_path / "val.pickle").write_bytes(pickle.dumps([molecule(0), Poison()]))
    with pytest.raises(ValueError, match="val.pickle cannot be read: it contains posix.system, but only tensors"):
        read_zinc(tmp_path)
    (tmp_path / "val.pickle").write_bytes(pickle.dumps([molecule(0) | {"atom_type": PoisonedTensor()}] * 4))
    with pytest.raises(ValueError, match=r"a tensor of size \(1,\) cannot be read"):
        read_zinc(tmp_path)
    assert not (tmp_path / "poisoned").exists()


@pytest.mark.parametrize("content", [pickle.dumps(torch.load), pickle.dumps(torch.float32), b"", b"\x80\x04garbage"])
def test_the_unpickler_makes_tensors_and_nothing_else(content):
    with pytest.raises(ValueError, match="the file cannot be read"):
        read_tensors(content, "the file")


def test_a_tensor_cannot_reach_beyond_its_numbers():
    stored = read_tensors(pickle.dumps(torch.arange(4)), "x")
    assert stored.load().tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="a tensor of size .* cannot be read"):
        type(stored)(stored.content, 0, (5,), (1,)).load()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("val.index", b"0,9\n", "contains the index 9, but there are 4 molecules"),
        ("val.index", b"a,b\n", "must contain integers separated by commas"),
        ("val.pickle", pickle.dumps({"a": 1}), "must contain a list of molecules, got dict"),
        ("val.pickle", pickle.dumps([{"atom_type": 1}] * 4), "molecule 1 has no tensor 'atom_type'"),
        (
            "val.pickle",
            pickle.dumps([molecule(0) | {"bond_type": torch.ones(3, 2)}] * 4),
            r"molecule 1 has 2 atoms, but bond_type has shape \[3, 2\]",
        ),
    ],
)
def test_wrong_files_are_named(tmp_path, name, content, message):
    write(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_zinc(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(FileNotFoundError, match=f"{name} does not exist"):
        read_zinc(tmp_path)
