"""The test score of a finished run, computed again from its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tgnn.training.batches import make_batches
from tgnn.training.loop import Precision, outputs_of
from tgnn.training.prepare import prepare
from tgnn.training.run import WrongRun, at_its_place, find_device, load_model, read_config, read_facts, read_metrics


def evaluate(folder: Path, device: str = "auto", path: str | None = None) -> dict[str, Any]:
    """Loads the data and the model of a run, and scores it on the test part.

    Args:
        folder: Of the run.
        device: To compute on.
        path: Where its data lies now, if that was moved; other data is refused.
    """
    config, recorded = read_config(folder), read_metrics(folder)
    _, task, facts = read_facts(folder)
    model = load_model(folder)
    place = find_device(device)
    config = at_its_place(config, folder, path)
    prepared = prepare(config)
    if prepared.data_hash != facts["data_hash"]:
        raise WrongRun(
            f"{config.data.name} is not the data that {folder} was trained on: its hash is {prepared.data_hash}, "
            f"and that of the run {facts['data_hash']}; if its files or their schema.yaml were changed since, put them "
            "back, or train again"
        )
    if prepared.split.hash != facts["split"]["hash"]:
        raise WrongRun(
            f"the split is not that of {folder}: its hash is {prepared.split.hash}, and that of the run "
            f"{facts['split']['hash']}"
        )
    batches = make_batches(prepared.data, prepared.split.test, config.train, place, shuffle=False)
    outputs = outputs_of(model.to(place), batches, Precision(config.train.precision, place))
    score = task.score(outputs, prepared.sealed.open().to(outputs.device))
    return {
        "metric": task.metric,
        "test": score,
        "recorded": recorded["test"],
        "split": prepared.split.name,
        "split_hash": prepared.split.hash,
    }
