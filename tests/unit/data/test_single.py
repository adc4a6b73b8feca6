"""One graph in one file, written and read again."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from tgnn.data.formats.single import read_graph, write_graph


def example(sparse: bool) -> Data:
    x = torch.tensor([[0.0, 2.0], [0.0, 0.0], [1.5, 0.0]])
    masks = torch.eye(3, dtype=torch.bool)
    return Data(
        x=x.to_sparse_csr() if sparse else x,
        edge_index=torch.tensor([[0, 1], [1, 1]]),
        edge_attr=torch.ones(2, 3),
        y=torch.tensor([0, -1, 1]),
        train_mask=masks[0],
        val_mask=masks[1],
        test_mask=masks[2],
        num_nodes=3,
    )


@pytest.mark.parametrize("sparse", [True, False])
def test_round_trip(tmp_path, sparse):
    data = example(sparse)
    write_graph(data, tmp_path / "g.npz", "of the test")
    again = read_graph(tmp_path / "g.npz")
    assert again.x.layout == data.x.layout
    assert torch.equal(again.x.to_dense(), data.x.to_dense())
    for name in ("edge_index", "edge_attr", "y", "train_mask", "val_mask", "test_mask"):
        assert torch.equal(again[name], data[name]), name
    assert again.num_nodes == 3
    assert [path.name for path in tmp_path.iterdir()] == ["g.npz"]


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    write_graph(example(False), tmp_path / "g.npz")
    before = (tmp_path / "g.npz").read_bytes()

    def full(*arguments, **keywords):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match="No space left"):
        write_graph(example(True), tmp_path / "g.npz")
    assert (tmp_path / "g.npz").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["g.npz"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edge_index": None}, "it has no 'edge_index'"),
        ({"edge_index": np.array([[0], [9]])}, "names node 9, but there are 3"),
        ({"y": np.zeros(2)}, "y has 2 rows, but 3 are needed"),
        ({"x": np.array([object()])}, "is not a file of one graph"),
    ],
)
def test_wrong_files_are_named(tmp_path, change, message):
    arrays = {"num_nodes": 3, "edge_index": np.array([[0], [1]]), "y": np.zeros(3)} | change
    np.savez(tmp_path / "g.npz", **{name: value for name, value in arrays.items() if value is not None})
    with pytest.raises(ValueError, match=message):
        read_graph(tmp_path / "g.npz")
