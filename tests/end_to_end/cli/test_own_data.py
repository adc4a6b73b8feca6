"""Own tables and molecules through the commands: from files as users write them to predictions of new rows."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml

from tests.end_to_end.cli.conftest import write_friends


def test_names_in_capitals_thousands_and_file_modes(succeed, tmp_path):
    pay = [f"{1 + 37 * (i % 2)},{500 + i}.5" for i in range(60)]
    write_friends(tmp_path / "friends", pay=pay)
    (tmp_path / "friends/nodes.csv").rename(tmp_path / "friends/Nodes.CSV")
    assert "numeric: height, pay;" in succeed("data check friends")
    before = os.umask(0o027)
    try:
        succeed("train --data friends --epochs 2 --out run")
        succeed("predict run --data friends --out p.csv")
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "run").iterdir() if path.name != ".lock"} == {0o640}


TINY = ("--set=train.epochs=1", "--jobs=1", "--out=study")

# ---- molecules --------------------------------------------------------------------------------------------------

ALCOHOLS = "".join(f"{'C' * (i % 12 + 1)}O,m{i},{i % 12 + 0.5}\n" for i in range(60))
OTHERS = "[Si](C)(C)C[Pt+2],a\nC((,b\nF[P-](F)(F)(F)(F)F.[Na+],c\n,d\nCCO,e\n"
"""Elements, charges, degrees and bonds that no alcohol has, a string that is no molecule, and an empty cell."""


def test_molecules_of_other_elements_and_broken_rows(read, run, succeed, tmp_path):
    (tmp_path / "alcohols.csv").write_text("smiles,mol_id,boiling\n" + ALCOHOLS + "C((,broken,3\n")
    (tmp_path / "others.csv").write_text("smiles,mol_id\n" + OTHERS)
    read("train --data alcohols.csv --epochs 2 --out run")
    own = pl.read_csv(tmp_path / read("predict run --out own.csv")["file"])
    assert own.columns == ["id", "split", "label", "prediction"]
    assert own["id"].to_list() == [*(f"m{i}" for i in range(60)), "broken"]
    assert own["split"].value_counts().sort("split")["count"].to_list() == [1, 12, 36, 12]  # null: the broken row
    assert own["label"][:3].to_list() == [0.5, 1.5, 2.5]
    assert own["prediction"].null_count() == 1
    assert own["label"].to_list()[-1] == 3  # the broken row keeps its label

    _, _, err = run("predict run --data others.csv --out p.csv")
    assert "others.csv, line 3: RDKit cannot" in err
    assert "others.csv: others.csv" not in err
    assert "2 of 5 rows have no prediction: line 3 ('C(('), line 5 ('')" in err
    table = pl.read_csv(tmp_path / "p.csv")
    assert table["id"].to_list() == ["a", "b", "c", "d", "e"]
    assert table["prediction"].is_null().to_list() == [False, True, False, True, False]
    code, _, err = run("predict run --data others.csv --out q.csv --strict")
    assert (code, "line 3: RDKit cannot parse the molecule 'C(('" in err) == (2, True)
    assert "line 5: column 'smiles' is empty" in err


# ---- what to predict --------------------------------------------------------------------------------------------


def test_target_id_and_task(read, run, succeed, tmp_path):
    """The label is named by an option, ids are recognized, and new labeled data is scored."""
    age = [20 + i % 7 for i in range(60)]
    write_friends(tmp_path / "friends", labels=False, user_id=[f"u{i}" for i in range(60)], age=age)
    write_friends(tmp_path / "others", seed=1, age=age)
    code, out, _ = run("data check friends")
    assert code == 1
    assert "warning: nodes.csv: no column is named label, y, target or class; name the column to predict, e.g. " in out
    assert "error: friends has no labels to train on. Name the column to predict, e.g. --target age" in out
    code, _, err = run("train --data friends --out run")
    assert (code, "e.g. --target age, or add a column" in err) == (2, True)
    assert run("data check friends --target age")[0] == 0
    assert "task: regression" in succeed("data check friends --target height")

    assert read("train --data friends --target town --epochs 3 --out run")["metric"] == "accuracy"
    assert read("train --data friends --target age --task regression --epochs 3 --out ages")["metric"] == "mae"
    succeed("tune --data friends --target age --task regression --id id --trials 1 --finals 0 --splits 1", *TINY)
    assert yaml.safe_load((tmp_path / "study/best.yaml").read_text())["data"]["target"] == ["age"]
    assert read("evaluate run")["recorded"] == read("evaluate run")["test"]
    assert read("predict run --data others --out p.csv")["rows"] == 60
    assert pl.read_csv(tmp_path / "p.csv").columns[:3] == ["id", "label", "prediction"]
    found = read("evaluate run --data others --metric macro-f1")
    assert (found["metric"], found["split"], found["examples"]) == ("macro-f1", "new data", 60)
    table = pl.read_csv(tmp_path / "p.csv")
    assert found["details"]["scores"]["accuracy"] == pytest.approx((table["label"] == table["prediction"]).mean())
    text = succeed("evaluate run --data others --target town")
    assert "on 60 labeled examples of others" in text
    assert all(part in text for part in ("balanced-accuracy", "precision", "true \\ predicted"))
    assert "in training set" not in text
    code, _, err = run("evaluate run --data others --target label")
    assert (code, "others has no labels to compare with" in err) == (2, True)
    code, _, err = run("evaluate run --task regression")
    assert (code, "was trained for classification, not regression" in err) == (2, True)
    code, _, err = run("evaluate run --data others --target twon")
    assert (code, "there is no column 'twon' for nodes.label; did you mean 'town'?" in err) == (2, True)


def test_checked_data_can_be_trained_on(run, tmp_path):
    """``data check`` fails where ``train`` would, and warns of classes that cannot be learned."""
    write_friends(tmp_path / "one", labels=False, label=["tea"] * 60)
    write_friends(tmp_path / "rare", labels=False, label=["milk"] + ["tea", "coffee"] * 29 + ["tea"])
    for folder, code, message in (
        ("one", 1, "warning: nodes.csv: every label is 'tea'; a classifier needs at least two classes"),
        ("rare", 0, "warning: nodes.csv: the class 'milk' has a single example"),
    ):
        found, out, _ = run(f"data check {folder}")
        assert (found, message in out) == (code, True), out
        assert (run(f"train --data {folder} --epochs 1 --out {folder}-run")[0] != 0) == bool(code)


def test_new_tables_differ_from_the_training_tables(read, run, tmp_path):
    """Gaps, unknown categories, strings among numbers, other types, and other columns each give one warning."""
    rng = np.random.default_rng(0)
    size = [None, *rng.normal(170, 10, 59)]
    write_friends(tmp_path / "friends", size=size, code=[i % 3 for i in range(60)])
    (tmp_path / "friends/schema.yaml").write_text("nodes: {features: {code: categorical}}\n")
    code, _, err = run("train --data friends --epochs 2 --out run")
    assert (code, "line 2: column 'size' has a missing number, filled with 1" in err) == (0, True)
    write_friends(tmp_path / "others", labels=False)
    new = pl.read_csv(
        tmp_path / "others/nodes.csv"
    ).select(
        pl.lit(1.0).alias("extra"),
        pl.Series("code", [float(i % 3) for i in range(60)]),  # as pandas writes integers with gaps
        pl.when(pl.int_range(60) == 3).then(pl.lit("Paris")).otherwise("town").alias("town"),
        pl.Series("size", ["tall", *(str(n) for n in size[1:])]),
        pl.when(pl.int_range(60) > 2).then("height").alias("height"),
        "id",
    )
    new.write_parquet(tmp_path / "others/nodes.parquet")
    (tmp_path / "others/nodes.csv").unlink()
    code, _, err = run("predict run --data others --out p.csv")
    assert code == 0, err
    warnings = err.splitlines()
    for text in (
        "column 'extra' is not in the training data and ignored",
        "row 4: column 'town' has unknown categories, not in the training data: 'Paris'; encoded as zeros",
        "row 1: column 'size' was numeric in the training data, but contains 'tall'; read as missing numbers",
        "row 1: column 'size' has a missing number, filled with 1",
        "rows 1, 2, 3: column 'height' has a missing number, filled with 0",
    ):
        assert sum(text in line for line in warnings) == 1, err
    assert not any("'code'" in line for line in warnings)
    same = pl.read_csv(tmp_path / read("predict run --data friends --out q.csv")["file"])
    table = pl.read_csv(tmp_path / "p.csv")
    assert table.height == same.height == 60
    assert table["id"].to_list() == same["id"].to_list()
    assert table["prediction"].null_count() == 0


def test_edges_without_features(read, run, tmp_path):
    write_friends(tmp_path / "friends")
    nodes = pl.read_csv(tmp_path / "friends/nodes.csv").select("id", "label")
    nodes.write_csv(tmp_path / "friends/nodes.csv")
    assert "note: the logarithm of the degree is used as a feature of the nodes" in run("data check friends")[1]
    assert read("train --data friends --epochs 2 --out run")["model"] == "tgnn"
    assert read("predict run --data friends --out p.csv")["rows"] == 60
    assert read("evaluate run")["recorded"] == read("evaluate run")["test"]


ZINC = Path(__file__).parents[4] / "shared" / "data" / "zinc"


@pytest.mark.slow
@pytest.mark.skipif(not ZINC.exists(), reason="needs real data in ../shared/data/zinc, not part of the project")
def test_ten_thousand_molecules_of_zinc(read, run, tmp_path):
    """A model of 500 molecules predicts 10,000 others. 20 broken rows among 1,000 are named and left empty."""
    smiles = [gzip.decompress((ZINC / f"{part}.smi.gz").read_bytes()).decode().split() for part in ("train", "val")]
    trained, others = smiles[0][:500], (smiles[0][500:] + smiles[1])[:10_000]
    assert len(others) == 10_000
    pl.DataFrame({"smiles": trained, "y": [len(text) / 10 for text in trained]}).write_csv(tmp_path / "trained.csv")
    pl.DataFrame({"smiles": others}).write_csv(tmp_path / "others.csv")
    broken = [text if i % 50 else f"{text}((" for i, text in enumerate(others[:1000])]
    pl.DataFrame({"smiles": broken, "name": [f"z{i}" for i in range(1000)]}).write_csv(tmp_path / "broken.csv")
    read("train --data trained.csv --epochs 3 --out run")
    assert read("predict run --data others.csv --out p.csv") == {"rows": 10_000, "file": "p.csv", "unreadable": []}
    assert pl.read_csv(tmp_path / "p.csv")["prediction"].is_finite().all()
    code, out, err = run("predict run --data broken.csv --out q.csv")
    assert (code, "q.csv: 1,000 rows" in out) == (0, True)
    assert "20 of 1,000 rows have no prediction: " in err
    assert all(f"line {i + 2} ({broken[i]!r})" in err for i in range(0, 1000, 50))
    table = pl.read_csv(tmp_path / "q.csv")
    assert table["prediction"].count() == 980
    assert table.filter(pl.col("prediction").is_null())["id"].to_list() == [f"z{i}" for i in range(0, 1000, 50)]
