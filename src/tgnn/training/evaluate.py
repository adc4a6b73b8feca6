"""The test score of a finished run, computed again from its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tgnn.training.loaders import make_loader
from tgnn.training.loop import Precision, infer_outputs
from tgnn.training.prepare import prepare
from tgnn.training.train import (
    RunError,
    find_device,
    load_model,
    read_config,
    read_data_facts,
    read_metrics,
    with_data_path,
)


def evaluate(folder: Path, device: str = "auto", path: str | None = None) -> dict[str, Any]:
    """Loads the data and the model of a run, and scores it on the test part.

    Args:
        folder: Of the run.
        device: To compute on.
        path: Where its data lies now, if that was moved; other data is refused.
    """
    config, recorded = read_config(folder), read_metrics(folder)
    _, task, facts = read_data_facts(folder)
    model = load_model(folder)
    place = find_device(device)
    config = with_data_path(config, folder, path)
    prepared = prepare(config)
    if prepared.data_hash != facts["data_hash"]:
        raise RunError(
            f"{config.data.name} is not the data that {folder} was trained on: its hash is {prepared.data_hash}, "
            f"and that of the run {facts['data_hash']}; if its files or their schema.yaml were changed since, put them "
            "back, or train again"
        )
    if prepared.split.hash != facts["split"]["hash"]:
        raise RunError(
            f"the split is not that of {folder}: its hash is {prepared.split.hash}, and that of the run "
            f"{facts['split']['hash']}"
        )
    batches = make_loader(prepared.data, prepared.split.test, config.train, place, shuffle=False)
    outputs = infer_outputs(model.to(place), batches, Precision(config.train.precision, place))
    score = task.score(outputs, prepared.sealed.open().to(outputs.device))
    return {
        "metric": task.metric,
        "test": score,
        "recorded": recorded["test"],
        "split": prepared.split.name,
        "split_hash": prepared.split.hash,
    }
