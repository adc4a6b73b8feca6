"""Molecules to graphs: values worked out by hand, and the real MolHIV graphs."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tgnn.data.build.molecules import featurize
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.readers.graph_npz import read_graphs

pytest.importorskip("rdkit")
SHARED = Path(__file__).parents[4] / "shared" / "data"


def test_features_by_hand():
    arrays, unreadable = featurize(["C/C=C/[O-]", "[Na+]", "C1=CC=CN1"])
    assert unreadable == []
    first, salt, ring = GraphDataset(arrays | {"y": np.zeros(3)})
    # element, chirality, degree, charge, hydrogens, radicals, hybridisation, aromatic, ring
    assert first.x[0].tolist() == [5, 0, 4, 5, 3, 0, 2, 0, 0]
    assert first.x[3].tolist() == [7, 0, 1, 4, 0, 0, 1, 0, 0]  # charge -1 stands at 4; conjugated, so sp2
    assert first.edge_index.tolist() == [[0, 1, 2, 1, 2, 3], [1, 2, 3, 0, 1, 2]]  # forward, then backward
    assert first.edge_attr[:3].tolist() == [[0, 0, 0], [1, 2, 1], [0, 0, 1]]  # the double bond is E
    assert torch.equal(first.edge_attr[:3], first.edge_attr[3:])
    assert salt.x.tolist() == [[10, 0, 0, 6, 0, 0, 5, 0, 0]]  # hybridisation S is none of the list
    assert salt.edge_index.shape == (2, 0)
    assert ring.x[4].tolist() == [6, 0, 3, 5, 1, 0, 1, 1, 1]  # RDKit finds pyrrole aromatic
    assert ring.edge_attr.tolist() == [[3, 0, 1]] * 10


def test_an_unreadable_molecule_keeps_its_place_and_prints_nothing(capfd):
    arrays, unreadable = featurize(["C", "oops", "C(C)(C)(C)(C)C", "", "O"])
    assert unreadable == [1, 2, 3]
    assert arrays["num_nodes"].tolist() == [1, 0, 0, 0, 1]
    assert arrays["x"][:, 0].tolist() == [5, 7]
    arrays, unreadable = featurize(["C", "oops", "C(C)(C)(C)(C)C"], valence=False)
    assert unreadable == [1]
    assert arrays["num_nodes"].tolist() == [1, 0, 6]
    assert capfd.readouterr() == ("", "")


def test_nothing_in_nothing_out():
    arrays, unreadable = featurize([])
    assert unreadable == []
    assert {name: array.shape for name, array in arrays.items()} == {
        "num_nodes": (0,),
        "num_edges": (0,),
        "edge_index": (2, 0),
        "directed": (),
        "x": (0, 9),
        "edge_attr": (0, 3),
    }


def test_ticks_add_up():
    ticks: list[int] = []
    featurize(["C"] * 600 + ["oops"], tick=ticks.append)
    assert sum(ticks) == 601
    assert len(ticks) == 3


def test_a_number_is_no_molecule():
    with pytest.raises(TypeError, match="a molecule must be a SMILES string"):
        featurize([float("nan")])


def test_without_rdkit_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit.Chem", None)
    with pytest.raises(ModuleNotFoundError, match=r"rdkit.* is not installed; run pip install '.\[molecules\]'"):
        featurize(["C"])


def test_the_real_molhiv_graphs():
    """One in 29, and the seven that RDKit refuses."""
    folder = SHARED / "molhiv"
    if not folder.exists():
        pytest.skip("no molhiv beside the project")
    with (folder / "hiv" / "raw" / "HIV.csv").open() as file:
        smiles = [row["smiles"] for row in csv.DictReader(file)]
    refused = [137, 987, 12882, 18293, 30784, 30785, 35728]
    places = sorted({*range(0, len(smiles), 29), *refused})
    chosen = [smiles[place] for place in places]
    assert [places[i] for i in featurize(chosen)[1]] == refused
    arrays, unreadable = featurize(chosen, valence=False)
    assert unreadable == []
    theirs = read_graphs(folder / "graphs.npz")
    for place, ours in zip(places, GraphDataset(arrays | {"y": np.zeros(len(places))})):
        for part in ("x", "edge_index", "edge_attr"):
            assert torch.equal(ours[part], theirs[place][part]), (place, part)
