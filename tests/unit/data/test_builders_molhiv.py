"""The scaffold split, the packed form, and both together on MoleculeNet's HIV."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tgnn.data.build.molhiv import build_molhiv, drop_reverse_edges, read_hiv
from tgnn.data.build.scaffold import scaffold_split, scaffolds
from tgnn.data.graph_dataset import GraphDataset

pytest.importorskip("rdkit")
SHARED = Path(__file__).parents[4] / "shared" / "data"
MOLECULES = ["c1ccccc1", "Cc1ccccc1", "C1CC1", "CCO", "C1CCC1", "N", "oops", "c1ccccc1N"]


def test_the_largest_groups_are_learned_and_ties_go_to_the_later():
    split = scaffold_split(MOLECULES, train=0.7, val=0.15)
    assert split.name == "scaffold"
    # 3 benzenes, 2 without rings; then cyclobutane, which stands later, fills validation; the unreadable one is tested
    assert [part.tolist() for part in (split.train, split.val, split.test)] == [[0, 1, 3, 5, 7], [4], [2, 6]]


def test_a_group_that_does_not_fit_is_skipped_not_cut():
    split = scaffold_split(["C", "C", "C", "C1CC1", "C1CC1", "c1ccccc1"], train=0.5, val=0.2)
    assert [part.tolist() for part in (split.train, split.val, split.test)] == [[0, 1, 2], [5], [3, 4]]


def test_scaffolds_ignore_chirality_and_tick():
    ticks: list[int] = []
    both = ["C[C@H]1CC[C@@H](C)O1", "C[C@@H]1CC[C@@H](C)O1"]
    assert scaffolds(both, ticks.append) == ["C1CCOC1"] * 2
    assert ticks == [2]


def test_drop_reverse_edges_stores_each_edge_once():
    both = {
        "num_nodes": np.array([3, 1, 2]),
        "num_edges": np.array([4, 0, 2]),
        "edge_index": np.array([[0, 1, 1, 2, 0, 1], [1, 2, 0, 1, 1, 0]]),
        "edge_attr": np.array([[5], [6], [5], [6], [7], [7]]),
        "y": np.zeros(3),
    }
    one = drop_reverse_edges(both)
    assert one["edge_attr"].tolist() == [[5], [6], [7]]
    for ours, theirs in zip(GraphDataset(one), GraphDataset(both | {"directed": True})):
        assert torch.equal(ours.edge_index, theirs.edge_index)
        assert torch.equal(ours.edge_attr, theirs.edge_attr)
    with pytest.raises(ValueError, match="all edges of a graph and then their reverses"):
        drop_reverse_edges(both | {"edge_index": np.zeros((2, 6)) + np.array([[0], [1]])})


def test_a_small_table(tmp_path):
    path = tmp_path / "hiv.csv"
    path.write_text(
        "smiles,HIV_active\n" + "".join(f"{s},{i % 2}\n" for i, s in enumerate(["C", "CO", "C1CC1", "N"] * 5))
    )
    ticks: list[int] = []
    arrays = build_molhiv(path, ticks.append)
    assert sum(ticks) == 40
    graphs = GraphDataset(arrays)
    assert graphs[1].edge_index.tolist() == [[0, 1], [1, 0]]
    assert graphs[1].y.tolist() == [[1]]
    assert np.bincount(arrays["split"]).tolist() == [15, 0, 5]  # one group of 15 and one of 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("smiles,activity\nC,CI\n", "it has no column 'HIV_active'"),
        ("", "it has no column 'HIV_active'"),
        ("smiles,HIV_active\nC,1\nN,\n", "HIV_active is '' in row 2"),
        ("smiles,HIV_active\nC,1\noops,0\n", "RDKit cannot parse 'oops' in row 2"),
    ],
)
def test_wrong_tables_are_named(tmp_path, text, message):
    (tmp_path / "hiv.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        build_molhiv(tmp_path / "hiv.csv")


def test_the_real_table_and_split():
    """All labels; and one in 41 molecules: equal scaffolds stand in the same part of the split."""
    folder = SHARED / "molhiv"
    if not folder.exists():
        pytest.skip("no molhiv beside the project")
    smiles, y = read_hiv(folder / "hiv" / "raw" / "HIV.csv")
    with np.load(folder / "graphs.npz") as theirs:
        assert np.array_equal(y, theirs["y"])
        split = theirs["split"]
    part: dict[str, int] = {}
    for place, scaffold in zip(range(0, len(smiles), 41), scaffolds(smiles[::41])):
        assert split[place] == (2 if scaffold is None else part.setdefault(scaffold, split[place]))
    assert len(part) > 300
