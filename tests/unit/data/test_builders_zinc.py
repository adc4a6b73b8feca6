"""ZINC's graphs and targets: by hand, and as the real ones beside the project."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from tgnn.data.build import zinc
from tgnn.data.build.zinc import ATOMS, build_zinc, featurize_zinc, zinc_index
from tgnn.data.graph_dataset import GraphDataset

pytest.importorskip("rdkit")
SHARED = Path(__file__).parents[4] / "shared" / "data"


def test_the_vocabulary_has_28_atoms():
    assert len(ATOMS) == len(set(ATOMS)) == 28


def test_graphs_by_hand():
    benzoate, chiral = GraphDataset(featurize_zinc(["c1ccccc1C(=O)[O-]", "N[C@@H](C#N)Cl"]))
    # canonical: O=C([O-])c1ccccc1; the ring alternates
    assert benzoate.x.flatten().tolist() == [1, 0, 7, 0, 0, 0, 0, 0, 0]
    half = benzoate.num_edges // 2
    assert benzoate.edge_attr[:half].flatten().tolist() == [2, 1, 1, 2, 1, 2, 1, 2, 1]
    assert benzoate.edge_index[:, half - 1].tolist() == [8, 3]  # the bond that closes the ring is the last
    assert sorted(chiral.x.flatten().tolist()) == [0, 2, 2, 4, 6]  # the hydrogen of a chiral atom is written out
    assert 3 in chiral.edge_attr.flatten().tolist()


def test_targets_punish_long_cycles():
    six, eight, bridged = featurize_zinc(["C1CCCCC1", "C1CCCCCCC1", "CCCCCCCC"])["y"]
    assert six > eight
    assert bridged > eight


def test_an_atom_outside_of_the_vocabulary_is_named():
    with pytest.raises(ValueError, match=r"'C\[Si\]' has the atom Si with charge 0"):
        featurize_zinc(["CC", "C[Si]"])
    with pytest.raises(ValueError, match="RDKit cannot parse molecule 1, 'oops'"):
        featurize_zinc(["CC", "oops"])


def test_the_index_has_no_molecule_twice():
    train, val, test = zinc_index()
    assert (len(train), len(val), len(test)) == (10000, 1000, 1000)
    everyone = np.concatenate([train, val, test])
    assert len(np.unique(everyone)) == 12000
    assert everyone.min() >= 0
    assert everyone.max() < zinc.LINES
    assert test.max() < 5000 <= min(train.min(), val.min())  # the first 5,000 lines are the official test list


def test_a_small_file(tmp_path, monkeypatch):
    path = tmp_path / "zinc250k.smiles"
    path.write_text("C\nCC\nCCC\nCCCC\n")
    with pytest.raises(ValueError, match="has 4 molecules, but ZINC-250k has 249,456"):
        build_zinc(path)
    monkeypatch.setattr(zinc, "LINES", 4)
    monkeypatch.setattr(zinc, "zinc_index", lambda: (np.array([3, 1]), np.array([2]), np.array([0])))
    ticks: list[int] = []
    arrays = build_zinc(path, ticks.append)
    assert arrays["num_nodes"].tolist() == [4, 2, 3, 1]
    assert arrays["split"].tolist() == [0, 0, 1, 2]
    assert sum(ticks) == 4


@pytest.mark.parametrize(("number", "part"), enumerate(["train", "val", "test"]))
def test_the_real_graphs(number, part):
    """The first of each part, one after the other as they are stored."""
    folder = SHARED / "zinc"
    if not folder.exists():
        pytest.skip("no zinc beside the project")
    with gzip.open(folder / f"{part}.smi.gz", "rt") as file:
        smiles = file.read().split()[:500]
    ours = featurize_zinc(smiles)
    with np.load(folder / "graphs.npz") as theirs:
        first = int(np.flatnonzero(theirs["split"] == number)[0])
        for count, names in (("num_nodes", ("x",)), ("num_edges", ("edge_index", "edge_attr"))):
            start, length = int(theirs[count][:first].sum()), int(ours[count].sum())
            assert np.array_equal(ours[count], theirs[count][first : first + 500])
            for name in names:
                values = theirs[name].T if name == "edge_index" else theirs[name]
                same = ours[name].T if name == "edge_index" else ours[name]
                assert np.array_equal(same, values[start : start + length]), name
        np.testing.assert_allclose(ours["y"], theirs["y"][first : first + 500], atol=1e-5)
