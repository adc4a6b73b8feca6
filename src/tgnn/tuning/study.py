"""Run a hyperparameter search: open the study, start the workers, write the result."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import optuna
from filelock import FileLock
from optuna.importance import FanovaImportanceEvaluator, get_param_importances
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from tgnn.training.interrupts import Interrupted, catch_interrupts
from tgnn.training.loaders import check_batching
from tgnn.training.metrics import HIGHER_IS_BETTER
from tgnn.training.prepare import Prepared, find_device, prepare_without_test
from tgnn.training.run_files import current_environment
from tgnn.tuning.objective import REASON, SCORES
from tgnn.tuning.results import RECIPE_FILE, STUDY_FILE, StudyFileError, StudyResult, Trial
from tgnn.tuning.search_space import SearchPlan
from tgnn.tuning.storage import MAX_RETRIES, StudyError, storage_errors
from tgnn.tuning.workers import SharedStudy, Worker, last_attempts, run_in_processes

MIN_TRIALS_FOR_IMPORTANCE = 30
"""Number of trials from which the importance of hyperparameters is computed. Over fewer trials it is noise."""


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

    Both files are rewritten whenever a trial ends. The importance of the hyperparameters is computed at the end of
    a study of at least 30 trials.
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
    direction = StudyDirection.MAXIMIZE if empty_result.higher_is_better else StudyDirection.MINIMIZE
    open_study = partial(SharedStudy, url, name, direction, fingerprint)
    with contextlib.closing(open_study()) as shared, storage_errors(url):
        count = len(last_attempts(shared.search))
        if count > plan.trials:
            raise StudyError(
                f"study {name} already has {count} trials, which --trials includes: use --trials {count} to see its "
                "result, or a larger number to add trials"
            )
        folder.mkdir(parents=True, exist_ok=True)
        result, written = empty_result, (0, 0)

        def refresh() -> None:
            nonlocal result, written
            result = read_result(shared, plan, empty_result)
            finished = (result.count("complete", "pruned", "failed"), result.finals_left)
            if finished != written:  # importances are left out here, because they take too long
                write_files(result, plan, folder)
                written = finished
            on_progress(result)

        def finish() -> None:
            nonlocal result
            refresh()
            if len(result.trials) >= MIN_TRIALS_FOR_IMPORTANCE:
                result = replace(result, importance=_importances(shared.search))
                write_files(result, plan, folder)

        refresh()
        try:
            if jobs == 1:
                with catch_interrupts() as stop:
                    Worker(shared, plan, stop, refresh).run()
            else:
                run_in_processes(open_study, plan, jobs, refresh)
        except (Interrupted, OSError, StudyError):
            finish()
            raise
        finish()
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


def read_result(shared: SharedStudy, plan: SearchPlan, empty_result: StudyResult) -> StudyResult:
    """Return the current state of the study."""
    trials = [_to_trial(number, trial) for number, trial in last_attempts(shared.search).items()]
    started = [trial for trial in trials if trial.state != "waiting"]
    finalists, finals = shared.finalists(plan), last_attempts(shared.finals)
    finished = [number for number in finalists if number in finals and finals[number].state.is_finished()]
    return replace(
        empty_result,
        trials=started,
        num_trials=max(plan.trials, len(started)),
        finals=[_to_trial(number, finals[number]) for number in finished],
        finals_left=len(finalists) - len(finished),
    )


def _to_trial(number: int, trial: FrozenTrial) -> Trial:
    is_complete, is_pruned = trial.state == TrialState.COMPLETE, trial.state == TrialState.PRUNED
    reason = str(trial.user_attrs.get(REASON, ""))
    if trial.state == TrialState.FAIL:
        reason = f"its worker died {MAX_RETRIES + 1} times"
    last_score = None if trial.last_step is None else trial.intermediate_values[trial.last_step]
    return Trial(
        number=number,
        state="failed" if reason else trial.state.name.lower(),
        params=dict(trial.params),
        score=trial.value if is_complete else None,
        scores=tuple(trial.user_attrs.get(SCORES, ())),
        seconds=None if trial.duration is None else round(trial.duration.total_seconds(), 2),
        reason=reason,
        last_score=last_score if is_pruned and not reason else None,
    )


def _importances(study: optuna.Study) -> dict[str, float]:
    """Return the importance of each hyperparameter (fANOVA), or nothing if all scores are equal."""
    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if len({trial.value for trial in complete}) < 2:
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importances = get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0))
    return {key: round(float(importance), 4) for key, importance in importances.items()}


def write_files(result: StudyResult, plan: SearchPlan, folder: Path) -> None:
    """Write ``study.json`` and, if a trial is complete, ``best.yaml``. Several processes may write to a folder."""
    with FileLock(folder / ".lock"):
        result.write(folder / STUDY_FILE)
        if result.best is not None:
            result.write_recipe(folder / RECIPE_FILE, plan.recipe(result.best.params))


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
