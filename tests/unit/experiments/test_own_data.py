"""The table of own data: what a cell says about its runs."""

import pytest

from tgnn.experiments.own_data import ROWS, describe_own_data, measure_own_data
from tgnn.experiments.own_tasks import TASKS
from tgnn.training.recipes import resolve
from tgnn.training.run_folder import RunFolder


@pytest.mark.parametrize("column", TASKS)
def test_cells_have_default_recipes_even_if_the_catalog_has_the_data(column):
    level = TASKS[column].level
    for row, model, changes in ROWS:
        model = "gin" if (model, level) == ("graphsage", "graph") else model
        expected = resolve("my_folder", model, level, changes={**changes, "train.threads": 1}).model_dump(mode="json")
        described = describe_own_data(row, column)
        assert {key: described[key] for key in ("model", "optimizer")} == {
            k: expected[k] for k in ("model", "optimizer")
        }


def test_a_cell_describes_its_run(tmp_path):
    cell = measure_own_data("mlp", "karate", 0, tmp_path, {})
    (config,) = [RunFolder(path.parent).config for path in tmp_path.glob("own-data-mlp-*/config.yaml")]
    assert cell.config == config.model_dump(mode="json", include={"model", "optimizer", "train"})
    assert cell.runs[0].config_hash == config.hash
