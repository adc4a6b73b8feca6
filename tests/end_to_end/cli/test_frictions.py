"""Small things that users stumbled over, through the commands."""

from __future__ import annotations

import json
import math

import pytest

from tests.end_to_end.cli.conftest import write_friends
from tgnn.cli import console
from tgnn.experiments.definitions import EXPERIMENTS


def test_reproduce_list(succeed):
    listed = succeed("reproduce --list")
    assert "table-1-citation" in listed
    assert listed == succeed("reproduce")


def test_set_is_marked_and_drops_only_the_notes_on_it(read):
    options = "--set train.epochs=2 --set data.features=stored --set data.split=stratified"
    found = read(f"reproduce table-1-citation --datasets karate --models gcn --runs 1 {options} --out out")
    changed = "train.epochs=2, data.features=stored, data.split=stratified"
    assert found["title"].endswith(f"(changed: {changed})")
    assert found["notes"][0] == f"Changed by --set in every cell: {changed}."
    notes = EXPERIMENTS["table-1-citation"].notes
    assert [note in found["notes"] for note in notes] == [True, False, False, True, False]


def test_numbers_of_any_scale_start_near_the_loss_of_chance(succeed, tmp_path):
    (tmp_path / "shop").mkdir()
    rows = [f"{i},{10_000 * (i % 7)},{1e-3 * (i % 5)},{'ab'[i % 2]}" for i in range(60)]
    (tmp_path / "shop/nodes.csv").write_text("\n".join(["id,income,rate,label", *rows]) + "\n")
    edges = [f"{i},{(i + 2) % 60}" for i in range(60)]
    (tmp_path / "shop/edges.csv").write_text("\n".join(["source,target", *edges]) + "\n")
    succeed("train --data shop --epochs 2 --out run")
    first = json.loads((tmp_path / "run/history.jsonl").read_text().splitlines()[0])
    assert abs(first["loss"] - math.log(2)) < 0.4


def test_tune_announces_the_trainings_and_the_time_left(run, tmp_path):
    write_friends(tmp_path / "friends")
    search = "--search optimizer.lr=0.01,0.02 --trials 2 --splits 1 --jobs 1 --set train.epochs=2"
    code, out, err = run(f"tune --data friends {search} --out study")
    assert code == 0, err
    assert "2 trials on 1 split, then 2 final evaluations on 3 splits: at most 8 trainings" in err
    first = next(line for line in err.splitlines() if line.startswith("[1/2]"))
    assert first.endswith(" left")
    assert "importance" not in out


@pytest.mark.parametrize(("width", "columns"), [(80, 3), (120, 4), (200, 5)])
def test_models_fit_the_terminal(succeed, monkeypatch, width, columns):
    monkeypatch.setattr(console.out, "width", width)
    lines = succeed("models").splitlines()
    table = lines[: lines.index("")]
    assert table[0].split() == ["name", "tasks", "parameters", "summary", "paper"][:2] + (
        ["summary"]
        if columns == 3
        else ["parameters", "summary"]
        if columns == 4
        else ["parameters", "summary", "paper"]
    )
    assert max(map(len, table)) <= width
    assert sum(line.startswith("graphsage+cp") for line in table) == 1
