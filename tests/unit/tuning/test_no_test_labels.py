"""A search never reads test labels."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import torch

from tests.unit.tuning.small import comparable, small_plan
from tgnn.data.convert import convert
from tgnn.data.load import load
from tgnn.training.prepare import prepare_without_test
from tgnn.training.recipes import resolve
from tgnn.tuning.study import tune


def write_groups(folder, wrong: bool) -> None:
    """Write a graph of two communities with a split column, and with right or wrong labels in the test set."""
    rng = np.random.default_rng(0)
    group = np.arange(90) % 2
    split = np.array(["train", "val", "test"])[np.arange(90) // 2 % 3]
    label = np.where((split == "test") & wrong, 1 - group, group)
    nodes = {"id": range(90), "height": group + rng.normal(0, 0.7, 90), "label": label, "split": split}
    folder.mkdir()
    pl.DataFrame(nodes).write_csv(folder / "nodes.csv")
    ends = rng.integers(0, 90, (2, 300))
    ends = ends[:, group[ends[0]] == group[ends[1]]]
    pl.DataFrame({"source": ends[0], "target": ends[1]}).write_csv(folder / "edges.csv")


def test_other_test_labels_change_no_score(tmp_path):
    found = []
    for name, wrong in (("right", False), ("wrong", True)):
        write_groups(tmp_path / name, wrong)
        found.append(tune(small_plan(str(tmp_path / name), splits=1, trials=6), tmp_path / f"of-{name}"))
    right, wrong_ = found
    assert right.split == "column"
    assert right.data_hash != wrong_.data_hash
    assert comparable(right) == comparable(wrong_)
    assert len({trial.score for trial in right.trials}) > 1


def write_targets(folder, columns) -> str:
    rng = np.random.default_rng(0)
    folder.mkdir()
    targets = columns(rng)
    pl.DataFrame({"id": range(60), "height": rng.normal(0, 1, 60), **targets}).write_csv(folder / "nodes.csv")
    ends = rng.integers(0, 60, (2, 200))
    pl.DataFrame({"source": ends[0], "target": ends[1]}).write_csv(folder / "edges.csv")
    if len(targets) > 1:
        (folder / "schema.yaml").write_text(f"nodes: {{label: [{', '.join(targets)}]}}\n")
    return str(folder)


@pytest.mark.parametrize(
    "columns",
    [lambda rng: {"label": rng.normal(0, 1, 60)}, lambda rng: {f"label_{n}": rng.integers(0, 2, 60) for n in "ab"}],
    ids=["numbers", "several labels"],
)
@pytest.mark.parametrize("on_disk", [False, True], ids=["tables", "on disk"])
def test_no_test_labels_of_any_kind(tmp_path, columns, on_disk):
    source = write_targets(tmp_path / "tables", columns)
    if on_disk:
        convert(source, tmp_path / "graph")
        source = str(tmp_path / "graph")
    blind = prepare_without_test(resolve(source, "tgnn", "node"))
    hidden, seen = blind.data.y[blind.split.test], blind.data.y[blind.split.val]
    assert (hidden.isnan() if hidden.is_floating_point() else hidden == -1).all()
    assert not (seen.isnan() if seen.is_floating_point() else seen == -1).any()


@pytest.mark.parametrize("data", ["karate", "digits-graphs"])
def test_what_a_trial_sees_has_no_test_labels(data):
    blind = prepare_without_test(resolve(data, "gcn", "graph" if "graphs" in data else "node"))
    assert (blind.data.y[blind.split.test] == -1).all()
    with pytest.raises(RuntimeError, match="already been read"):
        blind.test_labels.read()
    rest = torch.cat([blind.split.train, blind.split.val])
    assert torch.equal(blind.data.y[rest], load(data).y[rest])
