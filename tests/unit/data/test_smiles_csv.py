"""Files of molecules."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
import torch

from tgnn.data.build.molecules import featurize
from tgnn.data.readers.smiles import read_smiles_csv
from tgnn.data.validation.report import DataError


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
    with pytest.raises(DataError, match="molecules.csv, lines 3, 4: RDKit cannot parse the molecule 'nonsense'"):
        read_smiles_csv(path)
    graphs, report = read_smiles_csv(path, skip_unreadable=True)
    assert graphs.y.tolist() == [1.5, 4.5]
    assert graphs.graph_id.tolist() == [0, 3]
    assert graphs.smiles == ["CO", "C"]
    assert [graph.num_nodes for graph in graphs] == [2, 1]
    assert [(f.level, f.locations) for f in report.findings if f.code == "unreadable-molecule"] == [("warning", (3, 4))]


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
    with pytest.raises(ValueError, match="has no column 'smiles'"):
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
