"""Predict with a trained model, on the run's own data or on new nodes or graphs, and evaluate it."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tgnn.data.dataset_info import LoadedData, content_hash
from tgnn.data.splits import labeled_mask
from tgnn.data.tables.schema import ReadOptions
from tgnn.data.validation.report import quoted, subject
from tgnn.training.config import Config, TrainConfig
from tgnn.training.ensemble import average_predictions, ensemble_outputs
from tgnn.training.loaders import make_inference_batches
from tgnn.training.loop import check_outputs, infer
from tgnn.training.metrics import check_metric
from tgnn.training.new_data import load_new_data
from tgnn.training.predictions import Predictions, make_predictions
from tgnn.training.prepare import add_model_inputs, find_device
from tgnn.training.repeated_runs import RunGroup
from tgnn.training.result_details import describe_result, example_sizes, output_names
from tgnn.training.run_folder import RunError, RunFolder

logger = logging.getLogger("tgnn")


def predict(
    run: RunFolder | RunGroup | str | os.PathLike[str],
    data: Any = None,
    *,
    out: str | os.PathLike[str] | None = None,
    device: str = "auto",
    id: str | None = None,
    strict: bool = False,
    spreadsheet_safe: bool = False,
) -> Predictions:
    """Predict with the trained model of a run, or with the mean of several runs.

    Args:
        run: The run, several runs (``tgnn train --runs``), or the path of their folder.
        data: New data in the format of the training data: its name or path, a pandas or polars data frame of molecules,
            data frames ``(nodes, edges)`` or ``{"graphs": ..., "nodes": ..., "edges": ...}``, a PyG ``Data`` or a
            ``GraphDataset``. ``None``: the run's own data.
        out: A ``.csv`` or ``.parquet`` file to write. ``None``: nothing is written.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"mps"``.
        id: Column of ids of the new data. ``None``: that of the training data, else recognized by name.
        strict: Whether a molecule that cannot be read is an error. Otherwise its row has no prediction.
        spreadsheet_safe: As for :meth:`Predictions.write`.

    Returns:
        One prediction per node or graph, in the order of the data.

    Example:
        >>> import tempfile, tgnn
        >>> folder = tempfile.mkdtemp()
        >>> run = tgnn.train("karate", out=f"{folder}/run", options={"train.epochs": 2})
        >>> predictions = tgnn.predict(run, out=f"{folder}/predictions.csv")
        >>> predictions.table().columns[:5]
        ['id', 'split', 'label', 'prediction', 'probability 0']
    """
    options = ReadOptions(id=id, strict=strict, use_stored_split=data is None)
    group = run if isinstance(run, RunGroup) else RunGroup(run)
    if not isinstance(run, RunFolder) and group.has_started:
        predictions = average_predictions(_predict_members(group, data, device, options))
    else:
        predictions = _predict_run(run if isinstance(run, RunFolder) else RunFolder(group.path), data, device, options)
    if out is not None:
        predictions.write(out, spreadsheet_safe)
    return predictions


def _predict_run(run: RunFolder, data: Any, device: str, options: ReadOptions) -> Predictions:
    if run.is_decoder:
        raise RunError(
            f"{run.path} holds a decoder. Decode received frames with tgnn.training.decoding.decode(run.load_model(), "
            f"code, llr), or compute its error rates with `tgnn evaluate {run.path}`."
        )
    task, torch_device = run.task, find_device(device)
    model = run.load_model().to(torch_device)
    new_data, split = load_new_data(run, data, options)
    outputs = compute_outputs(model, new_data, run.config, torch_device)
    names = output_names(run.data_info.get("encoding"), run.shape.outputs)
    return make_predictions(task, outputs, names, new_data, split)


def _predict_members(group: RunGroup, data: Any, device: str, options: ReadOptions) -> list[Predictions]:
    with _each_message_once():  # every run reads the data
        return [_predict_run(run, data, device, options) for run in group.finished_runs]


@contextlib.contextmanager
def _each_message_once() -> Iterator[None]:
    """Drop log messages that were logged before."""
    logged = set()

    def is_new(record: logging.LogRecord) -> bool:
        message = record.getMessage()
        found = message not in logged
        logged.add(message)
        return found

    logger.addFilter(is_new)
    try:
        yield
    finally:
        logger.removeFilter(is_new)


def evaluate_together(
    group: RunGroup,
    data: str | os.PathLike[str] | None,
    metric: str | None,
    device: str,
    options: ReadOptions | None = None,
) -> dict[str, Any]:
    """Compute the metric of the mean prediction of several runs on labeled new data, as :func:`evaluate` does."""
    runs = group.finished_runs
    task = replace(runs[0].task, log_prior_ratio=(), temperature=1.0)
    metric = TrainConfig(metric=metric).metric or task.metric
    check_metric(metric, task.target)
    options = _options_for_labels(runs[0], data, options)
    if data is None:
        raise RunError(
            f"{group.path} holds {len(runs)} runs with test sets of their own. Evaluate one of them, such as "
            f"{runs[0].path}, or all together on labeled new data with --data."
        )
    members = _predict_members(group, data, device, options)
    if any(member.split is not None for member in members):
        raise RunError(f"{data} is the training data of the runs. Give other labeled data.")
    outputs, labels = ensemble_outputs(task, average_predictions(members))
    if not len(labels):
        raise _no_labels_error(runs[0], data, options)
    details = describe_result(task, outputs, labels, labels[:0], members[0].names, None, runs[0].shape.level)
    return {
        "metric": metric,
        "test": task.score(outputs, labels, metric),
        "examples": len(labels),
        "recorded": None,
        "split": "new data",
        "split_hash": None,
        "details": details.model_dump(mode="json", exclude_none=True),
    }


def _options_for_labels(run: RunFolder, data: Any, options: ReadOptions | None) -> ReadOptions:
    """Return the options to read labeled data, after checking that the run was trained for their task."""
    options, task = options or ReadOptions(), run.task.target
    if options.task not in (None, task):
        raise RunError(f"{run.path} was trained for {task}, not {options.task}. Train again.")
    return replace(options, require_labels=data is not None)


def _no_labels_error(run: RunFolder, data: Any, options: ReadOptions) -> ValueError:
    """Return the error of new data without a label that the model could have predicted."""
    target = (run.data_info.get("encoding") or {}).get("target") or {}
    columns, classes = options.target or target.get("columns") or (), target.get("classes") or ()
    reason = ""
    if columns:
        missing = f"none of the classes {quoted(classes)} of the training data" if classes else "no values"
        reason = f": {subject('column', columns, 'has', 'have')} {missing}"
    return ValueError(f"{data} has no labels to compare with{reason}.")


def compute_outputs(
    model: torch.nn.Module, data: LoadedData, config: Config, device: torch.device, rows: Tensor | None = None
) -> Tensor:
    """Compute the outputs of a trained model on its device for all or some nodes or graphs of transformed data."""
    add_model_inputs(data, config.model.name)
    batches = make_inference_batches(data, rows, config.train.batch_size, device)
    outputs = infer(model, batches, config.train.precision, device).cpu()
    check_outputs(outputs)
    return outputs


def evaluate(
    run: RunFolder | str | os.PathLike[str],
    data: str | os.PathLike[str] | None = None,
    *,
    metric: str | None = None,
    device: str = "auto",
    options: ReadOptions | None = None,
) -> dict[str, Any]:
    """Compute the metric of a trained model on the run's own test set, or on all labeled examples of new data.

    Args:
        run: The run, or the path of its folder.
        data: Name or path of labeled new data, or the path of the run's own data if it was moved. ``None``: the run's
            own data.
        metric: Metric to compute, such as ``"macro-f1"``. ``None``: that of the run.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"mps"``.
        options: Columns of labels and ids of new data, if they are not those of the training data.

    Returns:
        ``metric``, its value ``test``, the number of ``examples``, and the ``details`` of the result
        (:class:`~tgnn.training.result_details.ResultDetails`). For the run's own data also the value ``recorded`` after
        training and the split. For new data, ``split`` is ``"new data"``.
    """
    run = run if isinstance(run, RunFolder) else RunFolder(run)
    if run.is_decoder:
        from tgnn.training.decoder_runs import evaluate_decoder

        if metric is not None:
            raise RunError(f"{run.path} holds a decoder, whose metric is the bit error rate. Remove --metric.")
        return evaluate_decoder(run, data)
    config, recorded, task = run.config, run.metrics, run.task
    metric = TrainConfig(metric=metric).metric or task.metric
    check_metric(metric, task.target)
    options = _options_for_labels(run, data, options)
    model, torch_device = run.load_model(), find_device(device)
    new_data, split = load_new_data(run, data, replace(options, use_stored_split=True))
    y = new_data.y
    if split is not None:
        rows = split.test
    elif data is None:
        run.check_unchanged({"data": content_hash(new_data)})
        raise RunError(f"{run.path} cannot be evaluated, because the split of its data changed. Train again.")
    elif y is None or not bool(labeled_mask(y).any()):
        raise _no_labels_error(run, data, options)
    else:
        rows = labeled_mask(y).nonzero().flatten()
    assert y is not None
    outputs, labels = compute_outputs(model.to(torch_device), new_data, config, torch_device, rows), y[rows]
    y_train = y[:0] if split is None else y[split.train]
    names = output_names(run.data_info.get("encoding"), outputs.size(1))
    sizes = example_sizes(new_data, rows)
    details = describe_result(task, outputs, labels, y_train, names, sizes, run.shape.level)
    result = {"metric": metric, "test": task.score(outputs, labels, metric), "examples": len(rows)}
    known = {**(recorded.get("details") or {}).get("scores", {}), recorded["metric"]: recorded["test"]}
    return result | {
        "recorded": None if split is None else known.get(metric),
        "split": "new data" if split is None else split.name,
        "split_hash": None if split is None else split.hash,
        "details": details.model_dump(mode="json", exclude_none=True),
    }
