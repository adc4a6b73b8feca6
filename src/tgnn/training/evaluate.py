"""Evaluate a finished run: compute its test metric again from its files."""

from __future__ import annotations

import os
from typing import Any

from tgnn.training.inference import infer
from tgnn.training.loaders import make_inference_batches
from tgnn.training.prepare import find_device, prepare
from tgnn.training.run_folder import RunError, RunFolder


def evaluate(
    run: RunFolder | str | os.PathLike[str], data: str | os.PathLike[str] | None = None, *, device: str = "auto"
) -> dict[str, Any]:
    """Load the data and the model of a run, and compute the metric on the test set.

    Args:
        run: The run, or the path of its folder.
        data: Path of the run's data if it was moved. Other data is refused.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"mps"``.

    Returns:
        ``metric``, its value ``test``, the value ``recorded`` after training, and the split.
    """
    run = run if isinstance(run, RunFolder) else RunFolder(run)
    config, recorded, info, task = run.config, run.metrics, run.data_info, run.task
    model, torch_device = run.load_model(), find_device(device)
    config = run.config_with_data(data)
    prepared = prepare(config)
    if prepared.data_hash != info["data_hash"]:
        raise RunError(
            f"{config.data.name} is not the data that {run.path} was trained on: its hash is {prepared.data_hash}, "
            f"and the hash of the run's data is {info['data_hash']}. Restore the files and schema.yaml, or train again."
        )
    if prepared.split.hash != info["split"]["hash"]:
        raise RunError(
            f"The split is not the split of {run.path}: its hash is {prepared.split.hash}, "
            f"and the hash of the run's split is {info['split']['hash']}."
        )
    batches = make_inference_batches(prepared.data, prepared.split.test, config.train.batch_size, torch_device)
    outputs = infer(model.to(torch_device), batches, config.train.precision, torch_device)
    return {
        "metric": task.metric,
        "test": task.score(outputs, prepared.test_labels.read().to(outputs.device)),
        "recorded": recorded["test"],
        "split": prepared.split.name,
        "split_hash": prepared.split.hash,
    }
