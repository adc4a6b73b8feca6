"""Run a hyperparameter search: open the study, start the workers, write the result."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import optuna

from tgnn.training.interrupts import Interrupted
from tgnn.training.loaders import check_batching
from tgnn.training.metrics import HIGHER_IS_BETTER
from tgnn.training.prepare import Prepared, find_device, prepare_without_test
from tgnn.training.run_folder import current_environment
from tgnn.tuning.results import STUDY_FILE, StudyFileError, StudyResult
from tgnn.tuning.search_plan import SearchPlan
from tgnn.tuning.storage import SharedStudy, StorageLostError, StudyError, storage_errors
from tgnn.tuning.summarize import param_importances, read_finals, read_trials, write_files
from tgnn.tuning.worker_pool import StudyAddress, run_in_processes, run_in_this_process


def tune(
    plan: SearchPlan,
    folder: Path,
    jobs: int = 1,
    storage: str | None = None,
    name: str | None = None,
    command: str = "",
    on_progress: Callable[[StudyResult], None] = lambda result: None,
) -> StudyResult:
    """Run all trials of a study, then the final evaluation, and write ``study.json`` and ``best.yaml``.

    Both files are rewritten whenever a trial ends. The importance of the hyperparameters is computed at the end.
    A study that was interrupted is resumed. Several processes, on one machine or many, can share the trials of one
    storage.

    Args:
        plan: The search.
        folder: Output folder. It also holds the study (``study.db``) if ``storage`` is ``None``.
        jobs: Number of trials to run in parallel.
        storage: Optuna storage URL, such as ``postgresql://...``. By default a SQLite file in ``folder``.
        name: Name of the study. By default data set and model.
        command: Command that repeats the search, stored in the result.
        on_progress: Called with the current state of the study: before the first trial, while trials run and at the
            end.
    """
    initial_config = plan.trial_config(plan.initial_params)
    prepared = prepare_without_test(initial_config)  # errors in data or options surface before anything is written
    check_batching(prepared.data, initial_config.train)
    find_device(initial_config.train.device)
    name = name or plan.study_name
    _check_folder(folder, name)
    empty_result = _empty_result(plan, name, prepared, command)
    fingerprint = {"data": prepared.data_hash, "metric": empty_result.metric, **plan.fingerprint}
    del prepared
    if storage is None:
        folder.mkdir(parents=True, exist_ok=True)
    url = storage or f"sqlite:///{(folder / 'study.db').resolve()}"
    address: StudyAddress = (url, name, "maximize" if empty_result.higher_is_better else "minimize", fingerprint)
    shared, result, written = SharedStudy(*address), empty_result, (0, 0)
    with storage_errors(url):
        count = len(read_trials(shared))
    if count > plan.trials:  # best.yaml and the final evaluation would ignore some of the trials
        shared.close()
        raise StudyError(
            f"study {name} already has {count} trials, which --trials includes: use --trials {count} to see its "
            "result, or a larger number to add trials"
        )
    folder.mkdir(parents=True, exist_ok=True)

    def refresh() -> None:
        nonlocal result, written
        trials = read_trials(shared)
        finals, left = read_finals(shared, plan, empty_result.higher_is_better)
        num_trials = max(plan.trials, len(trials))
        result = replace(empty_result, trials=trials, num_trials=num_trials, finals=finals, finals_left=left)
        finished = (result.count("complete", "pruned", "failed"), left)
        if finished != written:  # importances are left out here, because they take too long
            write_files(result, plan, folder)
            written = finished
        on_progress(result)

    try:
        with storage_errors(url):
            refresh()
            if jobs == 1:
                run_in_this_process(shared, plan, refresh)
            else:
                run_in_processes(address, plan, jobs, refresh)
            refresh()
    except Interrupted:
        with contextlib.suppress(StorageLostError), storage_errors(url):
            refresh()
        raise
    finally:
        if result.trials:
            result = replace(result, importance=param_importances(result, plan))
            write_files(result, plan, folder)
        shared.close()
    if result.best is None:
        reason = next((trial.reason for trial in result.trials if trial.reason), "all trials were pruned")
        raise StudyError(f"none of {len(result.trials)} trials finished, first error: {reason}")
    return result


def _check_folder(folder: Path, name: str) -> None:
    """Raise a ``StudyError`` if the folder holds the result of another study."""
    with contextlib.suppress(OSError, StudyFileError):
        if (other := StudyResult.read(folder / STUDY_FILE).name) != name:
            raise StudyError(
                f"{folder} holds study {other}: use another folder (--out), or --study {other} to resume that study"
            )


def _empty_result(plan: SearchPlan, name: str, prepared: Prepared, command: str) -> StudyResult:
    """Return the result before the first trial."""
    config = plan.config.model_dump(mode="json")
    for private_key in ("root", "offline"):
        config["data"].pop(private_key)
    versions = {key: value for key, value in current_environment().items() if key != "command"}
    return StudyResult(
        name=name,
        data=prepared.data.info.name,
        model=plan.config.model.name,
        metric=prepared.task.metric,
        higher_is_better=HIGHER_IS_BETTER[prepared.task.metric],
        split=prepared.split.name,
        splits=plan.splits,
        trials=(),
        num_trials=plan.trials,
        space={key: list(values) for key, values in plan.space.items()},
        config=config,
        seed=plan.seed,
        command=command,
        environment={**versions, "optuna": optuna.__version__},
        data_hash=prepared.data_hash,
    )
