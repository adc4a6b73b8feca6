"""Cora out of LINQS' files: the order of nodes, and Planetoid's own Cora after a detour through these files."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import torch

from tgnn.data.build.linqs import CLASSES, read_linqs_cora
from tgnn.data.readers.planetoid import read_planetoid

SHARED = Path(__file__).parents[4] / "shared" / "data"


def order() -> np.ndarray:
    with (files("tgnn.data.build") / "cora_order.npz").open("rb") as file, np.load(file) as stored:
        return stored["order"]


def write_linqs(folder: Path, x: np.ndarray, y: np.ndarray, cites: np.ndarray) -> None:
    """Writes nodes in Planetoid's order as LINQS has them: numbered otherwise, in an order of no meaning."""
    paper = 7 * order().astype(np.int64) + 3
    digits = np.full((len(x), 2 * x.shape[1] - 1), ord("\t"), np.uint8)
    digits[:, ::2] = x + ord("0")
    rows = [f"{paper[i]}\t{digits[i].tobytes().decode()}\t{CLASSES[y[i]]}\n" for i in range(len(x))]
    rng = np.random.default_rng(0)
    (folder / "cora.content").write_text("".join(rows[i] for i in rng.permutation(len(rows))))
    (folder / "cora.cites").write_text("".join(f"{paper[a]}\t{paper[b]}\n" for a, b in cites))


def made_up() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.integers(0, 2, (2708, 1433)), rng.integers(0, 7, 2708), rng.integers(0, 2708, (300, 2))


def test_the_order_is_a_permutation():
    assert np.array_equal(np.sort(order()), np.arange(2708))


def test_nodes_come_in_planetoids_order(tmp_path):
    x, y, cites = made_up()
    cites[0] = cites[1] = (5, 9)  # a citation twice,
    cites[2] = (9, 5)  # also the other way,
    cites[3] = (4, 4)  # and a paper that cites itself
    write_linqs(tmp_path, x, y, cites)
    data = read_linqs_cora(tmp_path)
    assert np.array_equal(data.x.to_dense().numpy(), x)
    assert data.y.tolist() == y.tolist()
    assert {tuple(edge) for edge in data.edge_index.t().tolist()} == {
        pair for a, b in cites.tolist() if a != b for pair in ((a, b), (b, a))
    }
    assert torch.equal(data.edge_index[1], data.edge_index[1].sort().values)
    assert [int(data[f"{part}_mask"].sum()) for part in ("train", "val", "test")] == [140, 500, 1000]


def test_wrong_files_are_named(tmp_path):
    x, y, cites = made_up()
    write_linqs(tmp_path, x, y, cites)
    (tmp_path / "cora.cites").write_text("3\t4\n")
    with pytest.raises(ValueError, match="contains paper 4, which is not in cora.content"):
        read_linqs_cora(tmp_path)
    content = (tmp_path / "cora.content").read_text()
    (tmp_path / "cora.content").write_text(content.replace("Theory", "Astrology"))
    with pytest.raises(ValueError, match="has the class 'Astrology', but the classes are Theory"):
        read_linqs_cora(tmp_path)
    (tmp_path / "cora.content").write_text(content.replace("\t1\t", "\t2\t", 1))
    with pytest.raises(ValueError, match="must have 0 or 1 for each of the 1433 words"):
        read_linqs_cora(tmp_path)
    (tmp_path / "cora.content").write_text("1\t0\t1\tTheory\n")
    with pytest.raises(ValueError, match="must have 2708 rows of 1435 columns, got 1 rows of 4"):
        read_linqs_cora(tmp_path)


def test_planetoids_cora_survives_the_detour(tmp_path):
    raw = SHARED / "planetoid" / "Cora" / "raw"
    if not raw.exists():
        pytest.skip("no Cora beside the project")
    theirs = read_planetoid(raw, "cora")
    one_way = theirs.edge_index[:, theirs.edge_index[0] < theirs.edge_index[1]].t().numpy()
    write_linqs(tmp_path, theirs.x.to_dense().int().numpy(), theirs.y.numpy(), one_way)
    ours = read_linqs_cora(tmp_path)
    assert torch.equal(ours.x.to_dense(), theirs.x.to_dense())
    for name in ("edge_index", "y", "train_mask", "val_mask", "test_mask"):
        assert torch.equal(ours[name], theirs[name]), name
