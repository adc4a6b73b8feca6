"""Recipes resolve to the configurations, and commands print the help pages, that were reviewed and stored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.snapshots.cells import RESULTS, recognized_cells
from tests.snapshots.configs import current_configs
from tests.snapshots.help import current_help
from tgnn.experiments.definitions import EXPERIMENTS
from tgnn.experiments.results import read_result
from tgnn.training.config import make_config

HERE = Path(__file__).parent
UPDATE = "review the difference, then run: python -m tests.snapshots.update"


def test_resolved_configurations() -> None:
    stored = json.loads((HERE / "configs.json").read_text(encoding="utf-8"))
    current = json.loads(json.dumps(current_configs()))
    assert current.keys() == stored.keys(), UPDATE
    for pair, config in current.items():
        assert config == stored[pair], f"{pair}: {UPDATE}"


def test_help_pages() -> None:
    stored = {file.stem: file.read_text(encoding="utf-8") for file in (HERE / "help").glob("*.txt")}
    current = current_help()
    assert current.keys() == stored.keys(), UPDATE
    for name, text in current.items():
        assert text == stored[name], f"{name}: {UPDATE}"


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_every_stored_run_has_the_hash_of_its_configuration(path: Path) -> None:
    for cell in read_result(path).cells:
        for run in cell.runs:
            if cell.config and EXPERIMENTS[path.stem].measure is None:
                train = {**cell.config["train"], "seed": run.seed}
                config = make_config({**cell.config, "train": train})
                assert run.config_hash == config.hash, f"{cell.row} on {cell.column}, seed {run.seed}"


def test_reproduce_recognizes_stored_cells() -> None:
    stored = json.loads((HERE / "recognized_cells.json").read_text(encoding="utf-8"))
    assert recognized_cells() == stored, UPDATE
