"""A search from beginning to end: a study, its workers, and what comes out."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from tgnn.training.hearing import listening
from tgnn.training.loop import Interrupted, asked_to_stop
from tgnn.training.prepare import Prepared, prepare_blind
from tgnn.training.run import environment
from tgnn.training.side_by_side import begin_worker
from tgnn.training.task import HIGHER_IS_BETTER
from tgnn.tuning.plan import Plan
from tgnn.tuning.result import RECIPE, RESULT, StudyResult, Trial
from tgnn.tuning.rounds import latest, place_of
from tgnn.tuning.storage import Direction, WrongStudy, open_study
from tgnn.tuning.work import REASON, SCORES, SURPLUS, work

logger = logging.getLogger("tgnn")

_OFTEN = 1.0  # seconds between two looks at the study


def tune(
    plan: Plan,
    folder: Path,
    jobs: int = 1,
    storage: str | None = None,
    name: str | None = None,
    command: str = "",
    tell: Callable[[StudyResult], None] = lambda result: None,
) -> StudyResult:
    """Searches until the study has all its trials; writes ``study.json`` and the recipe ``best.yaml`` into the folder.

    Started again, it goes on. Several of it, on one machine or many, share the trials of one storage.

    Args:
        plan: What to search.
        folder: For what comes out, and the study itself where no storage is given.
        jobs: Processes at once.
        storage: Such as ``postgresql://...``; by default a SQLite file in the folder.
        name: Of the study; by default data set and model.
        command: That a reader can type to have the same.
        tell: Called with what is known so far, whenever something changes.
    """
    prepared = prepare_blind(plan.config_of(plan.start))  # what is wrong with the data is said before anything begins
    metric = prepared.task.metric
    direction: Direction = "maximize" if HIGHER_IS_BETTER[metric] else "minimize"
    name = name or f"{Path(plan.config.data.name).name}-{plan.config.model.name}"
    folder.mkdir(parents=True, exist_ok=True)
    url = storage or f"sqlite:///{(folder / 'study.db').resolve()}"
    study = open_study(url, name, plan, direction, prepared.data_hash)
    about = _about(plan, name, prepared, command)
    del prepared

    def now() -> StudyResult:
        found = replace(about, trials=_trials(study, plan))
        tell(found)
        return found

    try:
        now()
        if jobs == 1:
            _here(study, plan, now)
        else:
            _side_by_side(url, name, direction, about.data_hash, plan, jobs, now)
    finally:
        result = replace(now(), importance=_importance(study))
        result.write(folder / RESULT)
        if result.best is not None:
            _write_recipe(result, plan, folder)
    if result.best is None:
        reason = next((trial.reason for trial in result.trials if trial.reason), "no trial ended")
        raise WrongStudy(f"none of {len(result.trials)} trials could be finished; the first said: {reason}")
    return result


def _about(plan: Plan, name: str, prepared: Prepared, command: str) -> StudyResult:
    """What is known before the first trial."""
    config = plan.config.model_dump(mode="json")
    for private in ("root", "offline"):
        config["data"].pop(private)
    return StudyResult(
        name=name,
        data=prepared.data.about.name,
        model=plan.config.model.name,
        metric=prepared.task.metric,
        higher_is_better=HIGHER_IS_BETTER[prepared.task.metric],
        split=prepared.split.name,
        splits=plan.splits,
        trials=(),
        asked=plan.trials,
        space={key: list(values) for key, values in plan.space.items()},
        config=config,
        seed=plan.seed,
        command=command,
        environment={key: value for key, value in environment().items() if key != "command"},
        data_hash=prepared.data_hash,
    )


def _here(study: optuna.Study, plan: Plan, now: Callable[[], Any]) -> None:
    with asked_to_stop() as stop:  # between trials, where the loop does not listen

        def between() -> None:
            now()
            if stop.is_set():
                raise Interrupted

        work(study, plan, between)


def _side_by_side(
    url: str, name: str, direction: Direction, data: str, plan: Plan, jobs: int, now: Callable[[], StudyResult]
) -> None:
    """Workers in processes of their own; a stop stops them all, and what they had is put back."""
    spawn = get_context("spawn")
    with asked_to_stop() as stop, listening(spawn) as said:
        about = (url, name, direction, data, plan.to_dict(), said)
        workers = [spawn.Process(target=_work_in_process, args=about, daemon=True) for _ in range(jobs)]
        for worker in workers:
            worker.start()
        try:
            while any(worker.is_alive() for worker in workers) and not stop.is_set():
                now()
                _wait(workers, stop.is_set)
        finally:
            for worker in workers:
                worker.terminate()  # asks: it puts back what it has
            for worker in workers:
                worker.join()
    if stop.is_set():
        raise Interrupted
    if any(worker.exitcode for worker in workers):
        logger.warning("%d of %d workers ended before their time", sum(bool(w.exitcode) for w in workers), jobs)
    if all(worker.exitcode for worker in workers):
        raise WrongStudy("all workers ended before their time; type the same line again to go on")


def _wait(workers: Sequence[BaseProcess], asked: Callable[[], bool]) -> None:
    until = time.monotonic() + _OFTEN
    while time.monotonic() < until and not asked() and any(worker.is_alive() for worker in workers):
        time.sleep(0.1)


def _work_in_process(url: str, name: str, direction: Direction, data: str, plan: dict[str, Any], said: Any) -> None:
    begin_worker(said)
    own = Plan.from_dict(plan)
    with asked_to_stop() as stop:

        def between() -> None:
            if stop.is_set():
                raise Interrupted

        try:
            work(open_study(url, name, own, direction, data), own, between)
        except Interrupted:
            return


# ---- what came out -----------------------------------------------------------------------------------------------


def _trials(study: optuna.Study, plan: Plan) -> list[Trial]:
    found = study.get_trials(deepcopy=False)
    shown = [trial for trial in latest(found) if SURPLUS not in trial.user_attrs]
    return [_trial(trial, place_of(trial, found)) for trial in shown]


def _trial(trial: FrozenTrial, place: int) -> Trial:
    notes = trial.user_attrs
    state = "failed" if REASON in notes or trial.state == TrialState.FAIL else trial.state.name.lower()
    return Trial(
        place,
        state,
        dict(trial.params),
        trial.value if trial.state == TrialState.COMPLETE else None,
        tuple(notes.get(SCORES, ())),
        None if trial.duration is None else round(trial.duration.total_seconds(), 2),
        str(notes.get(REASON, "")),
    )


def _importance(study: optuna.Study) -> dict[str, float]:
    """Share of each setting in how scores differ; nothing where too few trials are complete."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = optuna.importance.get_param_importances(
                study, evaluator=optuna.importance.FanovaImportanceEvaluator(seed=0)
            )
    except (ValueError, RuntimeError, ZeroDivisionError):
        return {}
    return {key: round(share, 4) for key, share in found.items()}


_NOT_OF_A_RECIPE = {
    "data": ("root", "offline"),
    "train": ("seed", "threads", "device", "track", "save_every"),
}
"""What is the user's, or of this machine."""


def _write_recipe(result: StudyResult, plan: Plan, folder: Path) -> None:
    """Whole, also where a setting is the default: another recipe may lie under it."""
    assert result.best is not None
    plain = plan.config_of(result.best.values).model_dump(mode="json")
    sections = {
        name: {key: value for key, value in fields.items() if key not in _NOT_OF_A_RECIPE.get(name, ())}
        for name, fields in plain.items()
    }
    result.write_recipe(folder / RECIPE, sections)
