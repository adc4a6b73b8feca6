"""What a study says so far, and what is written of it."""

from __future__ import annotations

import warnings
from pathlib import Path

from filelock import FileLock
from optuna.importance import FanovaImportanceEvaluator, get_param_importances
from optuna.trial import FrozenTrial, TrialState, create_trial

from tgnn.tuning.plan import Plan
from tgnn.tuning.results import RECIPE, RESULT, StudyResult, Trial
from tgnn.tuning.rounds import as_study, by_place, distributions, finals_of, is_final
from tgnn.tuning.storage import Shared
from tgnn.tuning.work import REASON, SCORES, SECONDS


def trials_of(shared: Shared) -> list[Trial]:
    """All that have begun, by place; not the finals."""
    running = {place: Trial(place, "running", {}) for place in shared.claims.held() if not is_final(place)}
    ended = {place: _trial(place, trial) for place, trial in by_place(shared.study).items() if not is_final(place)}
    return [trial for _, trial in sorted({**running, **ended}.items())]


def finals_so_far(shared: Shared, plan: Plan, higher_is_better: bool) -> tuple[list[Trial], int]:
    """The best trials as they were judged once more, under their own numbers; and how many are left.

    Args:
        shared: The study.
        plan: The search.
        higher_is_better: Sense of the metric.
    """
    ended = by_place(shared.study)
    finals = finals_of(plan, higher_is_better, ended) if all(place in ended for place in range(plan.trials)) else {}
    found = [_trial(place, ended[final]) for final, place in finals.items() if final in ended]
    return found, len(finals) - len(found)


def _trial(place: int, trial: FrozenTrial) -> Trial:
    notes = trial.user_attrs
    return Trial(
        place,
        "failed" if REASON in notes else trial.state.name.lower(),
        dict(trial.params),
        trial.value if trial.state == TrialState.COMPLETE else None,
        tuple(notes.get(SCORES, ())),
        notes.get(SECONDS),
        str(notes.get(REASON, "")),
        None if trial.state == TrialState.COMPLETE else _last(trial),
    )


def _last(trial: FrozenTrial) -> float | None:
    return None if trial.last_step is None else trial.intermediate_values[trial.last_step]


def write_all(result: StudyResult, plan: Plan, folder: Path) -> None:
    """``study.json``, and the best settings as ``best.yaml``.

    Args:
        result: Of the search.
        plan: The search.
        folder: Others may write to it at the same moment.
    """
    with FileLock(folder / ".lock"):
        result.write(folder / RESULT)
        if result.best is not None:
            result.write_recipe(folder / RECIPE, _sections(plan, result.best))


def importance_of(result: StudyResult, plan: Plan) -> dict[str, float]:
    """Share of each setting in how scores differ; nothing where they do not differ.

    Args:
        result: Of the search.
        plan: The search.
    """
    ranges = distributions(plan)
    done = [
        create_trial(value=trial.score, params=dict(trial.values), distributions=ranges)
        for trial in result.trials
        if trial.state == "complete"
    ]
    if len({trial.value for trial in done}) < 2:
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study = as_study(done, result.higher_is_better)
        found = get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0))
    return {key: round(float(share), 4) for key, share in found.items()}


_NOT_OF_A_RECIPE = {
    "data": ("root", "offline"),
    "train": ("seed", "threads", "workers", "device", "track", "save_every"),
}
"""What is the user's, or of this machine."""


def _sections(plan: Plan, best: Trial) -> dict[str, dict[str, object]]:
    """Whole, also where a setting is the default: another recipe may lie under it."""
    plain = plan.config_of(best.values).model_dump(mode="json")
    return {
        name: {key: value for key, value in fields.items() if key not in _NOT_OF_A_RECIPE.get(name, ())}
        for name, fields in plain.items()
    }
