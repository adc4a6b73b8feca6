"""``tgnn reproduce`` and ``tgnn models``."""

from __future__ import annotations

import json

import pytest

PART = "reproduce table-1-citation --datasets karate --set train.epochs=3 --set data.features=stored"


def test_list_of_experiments(read, succeed):
    text = succeed("reproduce")
    found = {one["name"]: one for one in read("reproduce")}
    assert {"table-1-citation", "table-2-graph", "figure-rank", "theorems", "figure-interactions"} <= found.keys()
    assert all(f"\n{name} " in text for name in found)
    assert (found["theorems"]["cells"], found["theorems"]["rows"]) == (9, ["Theorem 1", "Theorem 2", "Theorem 3"])


def test_a_part_of_a_table(run, read, succeed, tmp_path):
    options = f"--set model.norm=null --set data.root={tmp_path} --out out"
    two_rows = f"{PART} --models gcn,tgnn --runs 2 {options}"
    code, text, output = run(f"{two_rows} --jobs 1")
    assert code == 0
    assert "| gcn | 0." in text
    assert output.startswith("0 of 4 runs done, 3 waiting; running: gcn on karate (seed 0)")
    assert "4 of 4 runs done" in output
    assert sorted(path.suffix for path in (tmp_path / "out").glob("table*")) == [".csv", ".json", ".md", ".tex"]
    text = succeed(f"{two_rows} --json")
    found = json.loads(text)
    assert [len(cell["runs"]) for cell in found["cells"]] == [2, 2]
    assert str(tmp_path) not in text
    assert "--set model.norm=null" in found["command"]  # as given on the command line
    tests = [outcome["test"] for outcome in found["cells"][0]["runs"]]
    assert found["cells"][0]["mean"] == pytest.approx(sum(tests) / 2)
    assert [found["cells"][0][name] for name in ("interval", "p", "p_rows")] == [None, None, None]  # of two runs
    assert found["cells"][0]["std"] is not None
    splits = "Splits: stratified (karate). Runs with the same seed have the same split in every row."
    assert found["notes"][-1] == splits
    found = read(f"{PART} --models tgnn --runs 1 {options}")
    assert [(cell["row"], len(cell["runs"])) for cell in found["cells"]] == [("gcn", 2), ("tgnn", 2)]
    assert [command.split("--models ")[1][:8] for command in found["command"].split("; ")] == ["gcn,tgnn", "tgnn --d"]


@pytest.mark.parametrize(
    ("part", "lines", "last"),
    [
        ("theorems", 9, "Theorem 3 on 100 random layers, 1 run"),
        ("figure-interactions --models pna --largest 8", 8, "pna 8 on 8, 3 runs"),
        ("table-1-citation --models tgnn --runs 2", 3, "tgnn on pubmed, 2 runs  (paper 0.908)"),
    ],
)
def test_dry_run(read, succeed, part, lines, last):
    text = succeed(f"reproduce {part} --dry-run")
    assert (len(text.splitlines()), text.splitlines()[-1]) == (lines, last)
    found = read(f"reproduce {part} --dry-run")
    assert len(found) == lines
    assert f"{found[-1]['row']} on {found[-1]['column']}, {found[-1]['runs']} run" in last
    assert ("paper" in last) == (found[-1]["paper"] is not None)


def test_failed_cells_and_exit_code(run):
    few = "--models gat,gcn --runs 1 --jobs 1 --out out"
    code, text, output = run(f"{PART} --datasets karate,citeseer --offline {few}")
    assert code == 1
    assert text.count("citeseer could not be downloaded") == 3  # in two cells, and in full below
    assert "gcn on citeseer, gat on citeseer failed:" in text
    assert output.count("Alternatives:") == 1
    assert "2 of 4 runs done, 2 failed" in output


def test_models(read, succeed):
    text = succeed("models gat")
    assert "arXiv:1710.10903" in text
    assert "model.attention_dropout" in text
    found = read("models gcn")
    assert found["year"] == 2017
    assert found["tasks"] == ["node", "graph"]
    assert found["search_space"]["node"]["optimizer.lr"]
    assert found["hyperparameters"]["node"]["model.hidden_channels"] == 64  # of the default recipe
    names = [line.split()[0] for line in succeed("models").splitlines()[1:] if line]
    assert {"tgnn", "gcn", "gat"} < set(names)
