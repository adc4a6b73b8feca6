"""Small things that users stumbled over, through the commands."""

from __future__ import annotations

import pytest

from tests.end_to_end.cli.conftest import write_friends
from tgnn.cli import console


def test_reproduce_list(succeed):
    listed = succeed("reproduce --list")
    assert "table-1-citation" in listed
    assert listed == succeed("reproduce")


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
