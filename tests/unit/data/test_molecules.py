"""Molecules to graphs, scaffold splits, MolHIV, ZINC, and files of SMILES."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from torch_geometric.utils import from_smiles

from tgnn.data.build import zinc
from tgnn.data.build.molecules import build_molhiv, featurize, scaffold_split, scaffolds
from tgnn.data.build.zinc import ATOMS, build_zinc, featurize_zinc, zinc_index
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.readers.graph_npz import read_graphs
from tgnn.data.readers.smiles import read_smiles_csv
from tgnn.data.validation.report import DataError

pytest.importorskip("rdkit")


def test_features_by_hand():
    arrays, unreadable = featurize(["C/C=C/[O-]", "[Na+]", "C1=CC=CN1"])
    assert unreadable == []
    first, salt, ring = GraphDataset(arrays)
    # element, chirality, degree, charge, hydrogens, radicals, hybridization, aromatic, ring
    assert first.x[0].tolist() == [5, 0, 4, 5, 3, 0, 2, 0, 0]
    assert first.x[3].tolist() == [7, 0, 1, 4, 0, 0, 1, 0, 0]  # charge -1 has index 4; conjugated, so sp2
    assert first.edge_index.tolist() == [[0, 1, 2, 1, 2, 3], [1, 2, 3, 0, 1, 2]]  # bonds, then their reverses
    assert first.edge_attr[:3].tolist() == [[0, 0, 0], [1, 2, 1], [0, 0, 1]]  # the double bond is E
    assert torch.equal(first.edge_attr[:3], first.edge_attr[3:])
    assert salt.x.tolist() == [[10, 0, 0, 6, 0, 0, 5, 0, 0]]  # hybridization S is not in the list
    assert salt.edge_index.shape == (2, 0)
    assert ring.x[4].tolist() == [6, 0, 3, 5, 1, 0, 1, 1, 1]  # RDKit finds pyrrole aromatic
    assert ring.edge_attr.tolist() == [[3, 0, 1]] * 10


def test_pyg_describes_the_same_molecules_with_other_numbers():
    """PyG's features of elements, hybridizations and bonds are not those of the Open Graph Benchmark."""
    smiles = ["CC(=O)Oc1ccccc1C(=O)O", "N[C@@H](C)C(=O)[O-]", "C/C=C/C#N", "[Na+].[Cl-]"]
    for ours, theirs in zip(GraphDataset(featurize(smiles)[0]), map(from_smiles, smiles)):
        assert torch.equal(ours.x[:, 0] + 1, theirs.x[:, 0])  # element
        assert torch.equal(ours.x[:, [1, 2, 3, 4, 5, 7, 8]], theirs.x[:, [1, 2, 3, 4, 5, 7, 8]])
        assert sorted(ours.edge_index.t().tolist()) == theirs.edge_index.t().tolist()
        order = (ours.edge_index[0] * ours.num_nodes + ours.edge_index[1]).argsort()
        assert torch.equal(ours.edge_attr[order][:, 2], theirs.edge_attr[:, 2])  # conjugated


def test_unreadable_molecules_are_graphs_without_nodes(capfd):
    arrays, unreadable = featurize(["C", "oops", "C(C)(C)(C)(C)C", "", "O"])
    assert unreadable == [1, 2, 3]
    assert arrays["num_nodes"].tolist() == [1, 0, 0, 0, 1]
    assert arrays["x"][:, 0].tolist() == [5, 7]
    arrays, unreadable = featurize([])
    assert unreadable == []
    assert (arrays["x"].shape, arrays["edge_index"].shape, arrays["edge_attr"].shape) == ((0, 9), (2, 0), (0, 3))
    assert capfd.readouterr() == ("", "")
    with pytest.raises(TypeError, match="a molecule must be a SMILES string"):
        featurize([float("nan")])


def test_the_error_without_rdkit_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit.Chem", None)
    with pytest.raises(ModuleNotFoundError, match=r"rdkit.* is not installed; run pip install '.\[molecules\]'"):
        featurize(["C"])


# ---- scaffold split ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("smiles", "fractions", "expected"),
    [
        # 3 benzenes and 2 molecules without rings; then cyclobutane, which comes later; the unreadable one is tested
        (
            ["c1ccccc1", "Cc1ccccc1", "C1CC1", "CCO", "C1CCC1", "N", "oops", "c1ccccc1N"],
            (0.7, 0.15),
            [[0, 1, 3, 5, 7], [4], [2, 6]],
        ),
        # a group that does not fit is skipped, not divided
        (["C", "C", "C", "C1CC1", "C1CC1", "c1ccccc1"], (0.5, 0.2), [[0, 1, 2], [5], [3, 4]]),
    ],
)
def test_scaffold_split(smiles, fractions, expected):
    split = scaffold_split(smiles, *fractions)
    assert [part.tolist() for part in (split.train, split.val, split.test)] == expected
    assert scaffolds(["C[C@H]1CC[C@@H](C)O1", "C[C@@H]1CC[C@@H](C)O1"]) == ["C1CCOC1"] * 2  # without chirality


# ---- MolHIV -----------------------------------------------------------------------------------------------------


def test_molhiv_of_a_small_table(tmp_path):
    smiles = ["C", "CO", "C1CC1", "C(C)(C)(C)(C)C"] * 5  # RDKit rejects the last one, because of its valence
    rows = "".join(f"{text},{index % 2}\n" for index, text in enumerate(smiles))
    (tmp_path / "hiv.csv").write_text("smiles,HIV_active\n" + rows)
    graphs = GraphDataset(build_molhiv(tmp_path / "hiv.csv"))
    expected = GraphDataset(featurize(smiles[:3])[0])
    for ours, theirs in zip(graphs, expected):
        for name in ("x", "edge_index", "edge_attr"):
            assert torch.equal(ours[name], theirs[name])
    assert graphs[1].y.tolist() == [[1]]
    assert graphs[3].num_nodes == 6
    assert graphs.split_codes.bincount().tolist() == [15, 0, 5]  # groups of 10 and 5; unreadable ones are tested


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


# ---- ZINC -------------------------------------------------------------------------------------------------------


def test_zinc_graphs_by_hand():
    assert len(ATOMS) == len(set(ATOMS)) == 28
    benzoate, chiral = GraphDataset(featurize_zinc(["c1ccccc1C(=O)[O-]", "N[C@@H](C#N)Cl"]))
    # canonical: O=C([O-])c1ccccc1; the ring alternates
    assert benzoate.x.flatten().tolist() == [1, 0, 7, 0, 0, 0, 0, 0, 0]
    half = benzoate.num_edges // 2
    assert benzoate.edge_attr[:half].flatten().tolist() == [2, 1, 1, 2, 1, 2, 1, 2, 1]
    assert benzoate.edge_index[:, half - 1].tolist() == [8, 3]  # the bond that closes the ring is the last
    assert sorted(chiral.x.flatten().tolist()) == [0, 2, 2, 4, 6]  # the hydrogen of a chiral atom is explicit
    assert 3 in chiral.edge_attr.flatten().tolist()
    six, eight, chain = featurize_zinc(["C1CCCCC1", "C1CCCCCCC1", "CCCCCCCC"])["y"]
    assert min(six, chain) > eight  # the target penalizes long cycles


def test_molecules_outside_of_zinc_are_named():
    with pytest.raises(ValueError, match=r"'C\[Si\]' has the atom Si with charge 0"):
        featurize_zinc(["CC", "C[Si]"])
    with pytest.raises(ValueError, match="RDKit cannot parse molecule 1, 'oops'"):
        featurize_zinc(["CC", "oops"])


def test_zinc_of_a_small_file(tmp_path, monkeypatch):
    path = tmp_path / "zinc250k.smiles"
    path.write_text("C\nCC\nCCC\nCCCC\n")
    with pytest.raises(ValueError, match="has 4 molecules, but ZINC-250k has 249,456"):
        build_zinc(path)
    train, val, test = zinc_index()
    assert len({*train, *val, *test} & {*range(zinc.LINES)}) == 12000
    assert test.max() < 5000 <= min(train.min(), val.min())  # the first 5,000 lines are the official test list
    monkeypatch.setattr(zinc, "LINES", 4)
    monkeypatch.setattr(zinc, "zinc_index", lambda: (np.array([3, 1]), np.array([2]), np.array([0])))
    arrays = build_zinc(path)
    assert arrays["num_nodes"].tolist() == [4, 2, 3, 1]
    assert arrays["split"].tolist() == [0, 0, 1, 2]


@pytest.mark.parametrize(("code", "part"), enumerate(["train", "val", "test"]))
def test_the_real_zinc(real_data, code, part):
    """The first 500 molecules of each set."""
    with gzip.open(real_data(f"zinc/{part}.smi.gz"), "rt") as file:
        ours = GraphDataset(featurize_zinc(file.read().split()[:500]))
    theirs = read_graphs(real_data("zinc/graphs.npz"))
    theirs = theirs[(theirs.split_codes == code).nonzero().flatten()[:500]]
    for name in ("num_nodes", "num_edges", "x", "edge_index", "edge_attr"):
        assert torch.equal(getattr(ours, name), getattr(theirs, name)), name
    torch.testing.assert_close(ours.y, theirs.y, atol=1e-5, rtol=0)


# ---- files of SMILES -------------------------------------------------------------------------------------------


def write(folder: Path, text: str) -> Path:
    path = folder / "molecules.csv"
    path.write_text(text)
    return path


def test_molecules_with_ids_targets_and_a_split(tmp_path):
    text = "name,smiles,label,split\nmethanol,CO,yes,train\nbenzene,c1ccccc1,no,test\nwater,O,,train\n"
    graphs, report = read_smiles_csv(write(tmp_path, text))
    assert graphs.graph_id.tolist() == ["methanol", "benzene", "water"]
    assert graphs.smiles == ["CO", "c1ccccc1", "O"]
    assert graphs.y.tolist() == [1, 0, -1]
    assert graphs.encoding["target"]["classes"] == ["no", "yes"]
    arrays, _ = featurize(["c1ccccc1"])
    assert torch.equal(graphs[1].x, torch.from_numpy(arrays["x"]))
    assert torch.equal(graphs[1].edge_attr, torch.from_numpy(arrays["edge_attr"]))
    split = graphs.stored_split()
    assert [part.tolist() for part in (split.train, split.val, split.test)] == [[0], [], [1]]
    assert [str(f).split(": ")[0] for f in report.findings if f.code == "split-without-label"] == [
        "molecules.csv, line 4"
    ]
    assert report.statistics["nodes"] == 9


def test_unreadable_molecules(tmp_path):
    path = write(tmp_path, "smiles,y\nCO,1.5\nnonsense,2.5\n,3.5\nC,4.5\n")
    with pytest.raises(DataError, match="csv, line 3: RDKit cannot parse the molecule 'nonsense'; correct it") as error:
        read_smiles_csv(path, strict=True)
    assert "molecules.csv, line 4: column 'smiles' is empty; correct it or remove its row" in str(error.value)
    graphs, report = read_smiles_csv(path)
    assert [(row.row, row.place, row.text) for row in graphs.unreadable] == [
        (1, "line 3", "nonsense"),
        (2, "line 4", ""),
    ]
    assert not graphs[:1].unreadable
    assert graphs.y.tolist() == [1.5, 4.5]
    assert graphs.graph_id.tolist() == [0, 3]
    assert graphs.smiles == ["CO", "C"]
    assert [graph.num_nodes for graph in graphs] == [2, 1]
    assert [row.y.item() for row in graphs.unreadable] == [2.5, 3.5]
    skipped = [(f.code, f.level, f.locations) for f in report.findings if f.message.endswith("skipped")]
    assert skipped == [("missing-molecule", "warning", (4,)), ("unreadable-molecule", "warning", (3,))]


def test_several_targets_keep_what_is_missing(tmp_path):
    rows = "".join(f"{'C' * (i + 1)},{1000 + i},{i % 2},{'' if i == 3 else 1},T{i}\n" for i in range(12))
    graphs, report = read_smiles_csv(write(tmp_path, "mol,cid,NR,SR,code\n" + rows))
    assert graphs.encoding["columns"] == {"smiles": "mol", "targets": ["NR", "SR"], "ids": None, "split": None}
    assert graphs.y.shape == (12, 2)
    assert bool(graphs.y[3, 1].isnan())
    assert graphs.encoding["target"]["task"] == "multi-label"
    assert [f.message for f in report.findings if f.code == "ignored-column"] == ["columns not used: 'cid', 'code'"]
    chosen, _ = read_smiles_csv(tmp_path / "molecules.csv", targets=["SR"], ids="code", smiles="mol", task="regression")
    assert chosen.y.shape == (12,)
    assert chosen.graph_id[3] == "T3"
    with pytest.raises(DataError, match="no column 'HIV'; available: 'mol', 'cid'"):
        read_smiles_csv(tmp_path / "molecules.csv", targets=["HIV"])


def test_new_molecules(tmp_path):
    graphs, _ = read_smiles_csv(write(tmp_path, "id,smiles,label\n1,CO,b\n2,C,a\n"))
    encoding = json.loads(json.dumps(graphs.encoding))
    pl.DataFrame({"smiles": ["CC"], "id": [7]}).write_parquet(tmp_path / "new.parquet")
    new, _ = read_smiles_csv(tmp_path / "new.parquet", encoding=encoding)
    assert new.graph_id.tolist() == [7]
    assert new.y is None
    labeled, _ = read_smiles_csv(write(tmp_path, "label,smiles\nb,CO\nc,C\n"), encoding=encoding)
    assert labeled.y.tolist() == [1, -1]
    with pytest.raises(ValueError, match="there is no column 'smiles' of SMILES; available: 'label'"):
        read_smiles_csv(write(tmp_path, "label\nb\n"), encoding=encoding)
    with pytest.raises(ValueError, match="the encoding is for 'table' data"):
        read_smiles_csv(write(tmp_path, "smiles\nC\n"), encoding={"version": 1, "kind": "table"})


def test_ids_that_are_missing_or_there_twice(tmp_path):
    with pytest.raises(DataError, match="line 3: the molecule has no id"):
        read_smiles_csv(write(tmp_path, "id,smiles,y\n9007199254740993,CO,1.5\n,C,2.5\n12,CC,3.5\n"))
    graphs, report = read_smiles_csv(write(tmp_path, "id,smiles,y\nx,CO,1.5\nx,C,2.5\n"))
    assert graphs.graph_id.tolist() == ["x", "x"]
    assert [f.message for f in report.findings if f.code == "duplicate-id"] == ["duplicate id: 'x'"]


def test_columns_of_parquet(tmp_path):
    days = pl.Series(["2020-01-01", "2021-01-01"]).str.to_date()
    pl.DataFrame({"smiles": ["C", "CO"], "sol": [0.1, 0.2], "day": days}).write_parquet(tmp_path / "m.parquet")
    assert read_smiles_csv(tmp_path / "m.parquet")[0].encoding["columns"]["targets"] == ["sol"]  # a date is no target
    for column, wrong in (("id", [[1], [2]]), ("split", [["train"], ["test"]]), ("y", [{"a": 1}, {"a": 2}])):
        frame = pl.DataFrame({"smiles": ["C", "CO"], "id": [1, 2], "split": ["train", "test"], "y": [1, 2]})
        frame.with_columns(pl.Series(column, wrong)).write_parquet(tmp_path / "m.parquet")
        with pytest.raises(DataError, match=f"column '{column}' has the type"):
            read_smiles_csv(tmp_path / "m.parquet")


def test_files_without_molecules_and_molecules_twice(tmp_path):
    with pytest.raises(DataError, match="none of the columns 'who', 'size' contains SMILES"):
        read_smiles_csv(write(tmp_path, "who,size\nann lee,1\nbob,2\n"))
    _, report = read_smiles_csv(write(tmp_path, "smiles,y\nCO,1.5\nCO,2.5\n"))
    assert [f.locations for f in report.findings if f.code == "duplicate-molecule"] == [(3,)]
