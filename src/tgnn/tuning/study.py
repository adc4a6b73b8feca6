"""A search from beginning to end: a study, its workers, and what comes out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import optuna

from tgnn.training.interrupts import Interrupted
from tgnn.training.loaders import check_loader
from tgnn.training.metrics import HIGHER_IS_BETTER
from tgnn.training.prepare import Prepared, prepare_without_test
from tgnn.training.train import environment, find_device
from tgnn.tuning.outcome import finals_so_far, importance_of, trials_of, write_all
from tgnn.tuning.plan import Plan
from tgnn.tuning.results import RESULT, ResultError, StudyResult
from tgnn.tuning.storage import LostStorage, Shared, StudyError, in_words
from tgnn.tuning.workers import Opened, work_here, work_side_by_side


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

    Both are written whenever a trial has ended; the shares of the settings are told at the end.
    Started again, it goes on. Several of it, on one machine or many, share the trials of one storage.

    Args:
        plan: What to search.
        folder: For what comes out, and the study itself where no storage is given.
        jobs: Processes at once.
        storage: Such as ``postgresql://...``; by default a SQLite file in the folder.
        name: Of the study; by default data set and model.
        command: That a reader can type to have the same.
        tell: Called with what is known so far: first before any trial, and last when all have ended.
    """
    start = plan.config_of(plan.start)
    prepared = prepare_without_test(start)  # what is wrong is said before anything begins
    check_loader(prepared.data, start.train)
    find_device(start.train.device)
    name = name or plan.name
    _check_folder(folder, name)
    about = _about(plan, name, prepared, command)
    facts = {"data": prepared.data_hash, "metric": about.metric, **plan.facts}
    del prepared
    if storage is None:
        folder.mkdir(parents=True, exist_ok=True)
    url = storage or f"sqlite:///{(folder / 'study.db').resolve()}"
    opened: Opened = (url, name, "maximize" if about.higher_is_better else "minimize", facts)
    shared, result, ended = Shared(*opened), about, (0, 0)
    with in_words(url):
        count = len(trials_of(shared))
    if count > plan.trials:  # its finals and its best would be of some of the trials only
        shared.close()
        raise StudyError(
            f"the study {name} has {count} trials already, and --trials counts those, too: ask for {count} to see what "
            "came out, or for more to go on"
        )
    folder.mkdir(parents=True, exist_ok=True)

    def now() -> None:
        nonlocal result, ended
        trials = trials_of(shared)
        finals, left = finals_so_far(shared, plan, about.higher_is_better)
        asked = max(plan.trials, len(trials))
        result = replace(about, trials=trials, asked=asked, finals=finals, finals_left=left)
        done = (result.count("complete", "pruned", "failed"), left)
        if done != ended:  # for those who look on, and for a kill; shares take too long to be told each time
            write_all(result, plan, folder)
            ended = done
        tell(result)

    try:
        with in_words(url):
            now()
            if jobs == 1:
                work_here(shared, plan, now)
            else:
                work_side_by_side(opened, plan, jobs, now)
            now()
    except Interrupted:
        with contextlib.suppress(LostStorage), in_words(url):
            now()
        raise
    finally:
        if result.trials:
            result = replace(result, importance=importance_of(result, plan))
            write_all(result, plan, folder)
        shared.close()
    if result.best is None:
        reason = next((trial.reason for trial in result.trials if trial.reason), "all were pruned")
        raise StudyError(f"none of {len(result.trials)} trials could be finished; the first said: {reason}")
    return result


def _check_folder(folder: Path, name: str) -> None:
    """Refuses one that has what came out of another study."""
    with contextlib.suppress(OSError, ResultError):
        if (other := StudyResult.read(folder / RESULT).name) != name:
            raise StudyError(f"{folder} has the study {other}: give another --out, or --study {other} to go on with it")


def _about(plan: Plan, name: str, prepared: Prepared, command: str) -> StudyResult:
    """What is known before the first trial."""
    config = plan.config.model_dump(mode="json")
    for private in ("root", "offline"):
        config["data"].pop(private)
    where = {key: value for key, value in environment().items() if key != "command"}
    return StudyResult(
        name=name,
        data=prepared.data.info.name,
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
        environment={**where, "optuna": optuna.__version__},
        data_hash=prepared.data_hash,
    )
