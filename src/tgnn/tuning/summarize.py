"""Summarize a study: its trials, final evaluation and hyperparameter importance, and the files written from them."""

from __future__ import annotations

import warnings
from pathlib import Path

from filelock import FileLock
from optuna.importance import FanovaImportanceEvaluator, get_param_importances
from optuna.trial import FrozenTrial, TrialState, create_trial

from tgnn.tuning.results import RECIPE_FILE, STUDY_FILE, StudyResult, Trial
from tgnn.tuning.rounds import as_study, by_place, distributions, finals_of, is_final
from tgnn.tuning.run_trials import REASON, SCORES, SECONDS
from tgnn.tuning.search_plan import SearchPlan
from tgnn.tuning.storage import SharedStudy

_NOT_IN_RECIPE = {
    "data": ("root", "offline"),
    "train": ("seed", "threads", "workers", "device", "track", "save_every"),
}
"""Options that belong to the user or the machine, not to the hyperparameters."""


def read_trials(shared: SharedStudy) -> list[Trial]:
    """Return all trials that have started, by number, without the final evaluation."""
    running = {place: Trial(place, "running", {}) for place in shared.claims.held() if not is_final(place)}
    ended = {place: _to_trial(place, trial) for place, trial in by_place(shared.study).items() if not is_final(place)}
    return [trial for _, trial in sorted({**running, **ended}.items())]


def read_finals(shared: SharedStudy, plan: SearchPlan, higher_is_better: bool) -> tuple[list[Trial], int]:
    """Return the finished final evaluations, numbered as their trials, and the number of unfinished ones.

    Args:
        shared: The study.
        plan: The search.
        higher_is_better: Whether a higher metric is better.
    """
    ended = by_place(shared.study)
    finals = finals_of(plan, higher_is_better, ended) if all(place in ended for place in range(plan.trials)) else {}
    finished = [_to_trial(place, ended[final]) for final, place in finals.items() if final in ended]
    return finished, len(finals) - len(finished)


def _to_trial(number: int, trial: FrozenTrial) -> Trial:
    attributes, is_complete = trial.user_attrs, trial.state == TrialState.COMPLETE
    last_score = None if trial.last_step is None else trial.intermediate_values[trial.last_step]
    return Trial(
        number=number,
        state="failed" if REASON in attributes else trial.state.name.lower(),
        params=dict(trial.params),
        score=trial.value if is_complete else None,
        scores=tuple(attributes.get(SCORES, ())),
        seconds=attributes.get(SECONDS),
        reason=str(attributes.get(REASON, "")),
        last_score=None if is_complete else last_score,
    )


def write_files(result: StudyResult, plan: SearchPlan, folder: Path) -> None:
    """Write ``study.json`` and, if a trial is complete, ``best.yaml``.

    Args:
        result: The state of the study.
        plan: The search.
        folder: Output folder. Several processes may write to it at the same time.
    """
    with FileLock(folder / ".lock"):
        result.write(folder / STUDY_FILE)
        if result.best is not None:
            result.write_recipe(folder / RECIPE_FILE, _recipe_sections(plan, result.best))


def _recipe_sections(plan: SearchPlan, best: Trial) -> dict[str, dict[str, object]]:
    """Return all hyperparameters of a trial, defaults included, because a recipe may be merged over another one."""
    sections = plan.trial_config(best.params).model_dump(mode="json")
    return {
        section: {key: value for key, value in fields.items() if key not in _NOT_IN_RECIPE.get(section, ())}
        for section, fields in sections.items()
    }


def param_importances(result: StudyResult, plan: SearchPlan) -> dict[str, float]:
    """Return the importance of each hyperparameter (fANOVA), or nothing if all scores are equal.

    Args:
        result: The state of the study.
        plan: The search.
    """
    ranges = distributions(plan)
    complete = [
        create_trial(value=trial.score, params=dict(trial.params), distributions=ranges)
        for trial in result.trials
        if trial.state == "complete"
    ]
    if len({trial.value for trial in complete}) < 2:
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study = as_study(complete, result.higher_is_better)
        importances = get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0))
    return {key: round(float(importance), 4) for key, importance in importances.items()}
