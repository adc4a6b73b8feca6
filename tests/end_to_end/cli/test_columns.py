"""Columns of ids and labels of own tables: given by options, recognized, missing or empty."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from tests.end_to_end.cli.conftest import write_friends
from tgnn.data import load

CHURN = {"churn": ["no", "yes"] * 30, "plan": [i % 3 for i in range(60)]}


@pytest.fixture
def friends(tmp_path) -> None:
    """Tables whose label column is not recognized by its name."""
    write_friends(tmp_path / "friends", labels=False, **CHURN)


@pytest.mark.usefixtures("friends")
def test_convert_and_splits_take_the_columns_as_options(read, run, succeed, tmp_path):
    code, _, err = run("data splits friends")
    assert (code, "cannot be split. Name the column to predict, e.g. --target plan" in err) == (2, True)
    rows = read("data splits friends --target churn")
    out = succeed("data convert friends friends.npz --target churn --id id --task classification")
    assert "4 features, 2 outputs" in out
    assert read("data splits friends.npz") == rows
    assert load(tmp_path / "friends.npz").encoding["target"]["classes"] == ["no", "yes"]
    code, _, err = run("data check friends.npz --target churn")
    assert (code, "pass them to `tgnn data convert` when you convert the tables" in err) == (2, True)

    nodes = pl.read_csv(tmp_path / "friends/nodes.csv").drop("town", "churn")
    nodes.write_csv(tmp_path / "friends/nodes.csv")
    out = succeed("data convert friends graph --target plan --task regression")
    assert "1 features, 1 outputs" in out
    assert load(tmp_path / "graph").y.tolist() == [i % 3 for i in range(60)]


@pytest.mark.usefixtures("friends")
def test_check_lists_the_recognized_columns(run, tmp_path):
    assert "columns: id 'id', label 'churn'\n" in run("data check friends --target churn")[1]
    assert "columns: id 'id', label not recognized\n" in run("data check friends")[1]
    assert json.loads(run("data check friends --json")[1])["columns"] == {"id": "id", "label": []}
    (tmp_path / "molecules.csv").write_text("smiles,mol_id,boiling,split\nCO,a,1.5,train\nCCO,b,2.5,test\n")
    out = run("data check molecules.csv")[1]
    assert "columns: smiles 'smiles', id 'mol_id', label 'boiling', split 'split'\n" in out


@pytest.mark.usefixtures("friends")
def test_labels_that_are_missing_or_empty(run, tmp_path):
    write_friends(tmp_path / "others", seed=1, labels=False, plan=CHURN["plan"])
    write_friends(tmp_path / "empty", labels=False, churn=[None] * 60, plan=CHURN["plan"])
    for command in ("train --data empty --target churn", "data splits empty --target churn"):
        code, _, err = run(command)
        assert (code, "The column 'churn' has no values. Add some, or name another with --target." in err) == (2, True)
    assert run("train --data friends --target churn --epochs 2 --runs 2 --jobs 1 --out runs")[0] == 0
    for path in ("runs/seed-0", "runs"):
        for options, message in (
            (
                "--data others",
                "nodes.csv: column 'churn' of the labels is missing; the columns are 'id', 'height', 'town'",
            ),
            ("--data others", "--target names another column of labels"),
            (
                "--data others --target plan",
                "'plan' is a feature of the model, so it cannot be the label; the label in",
            ),
            ("--data others --target chrun", "there is no column 'chrun'"),
            ("--data empty", "empty has no labels to compare with: column 'churn' has none of the classes 'no', 'yes'"),
            ("--data others --task regression", "was trained for classification, not regression"),
        ):
            code, _, err = run(f"evaluate {path} {options}")
            assert (code, message in err) == (2, True), err
    assert run("predict runs --data others")[0] == 0  # needs no labels
    (tmp_path / "trained.csv").write_text("smiles,boiling\n" + "".join(f"{'C' * i}O,{i}.5\n" for i in range(1, 21)))
    (tmp_path / "new.csv").write_text("smiles,name\nCO,a\n")
    assert run("train --data trained.csv --epochs 1 --out run")[0] == 0
    code, _, err = run("evaluate run --data new.csv")
    assert (code, "column 'boiling' of the labels is missing; the columns are 'smiles', 'name'" in err) == (2, True)


@pytest.mark.usefixtures("friends")
def test_advice_on_new_edges_does_not_refer_to_the_schema(run, tmp_path):
    edges = pl.read_csv(tmp_path / "friends/edges.csv")
    edges.with_columns(weight=np.full(len(edges), 0.5)).write_csv(tmp_path / "friends/edges.csv")
    assert run("train --data friends --target churn --epochs 1 --out run")[0] == 0
    path = tmp_path / "friends/edges.csv"
    (tmp_path / "friends/schema.yaml").write_text("dangling: drop\nscale_weights: true\n")
    good = path.read_text()
    path.write_text(good + "p0-0,zed,0.5\n")
    code, _, err = run("predict run")
    assert (code, "unknown node 'zed', not in nodes.csv; add the node, or remove these edges" in err) == (2, True)
    assert "schema.yaml" not in err
    for weight, advice in ((7, "rescale the weights as in the training data"), (-1, "remove the edge")):
        path.write_text(good + f"p0-0,p0-2,{weight}\n")
        code, _, err = run("predict run")
        assert (code, f"must lie between 0 (no edge) and 1; {advice}" in err) == (2, True), err
        assert "schema.yaml" not in err
