"""Worker loop: lease a free trial, run it, store its result, until all trials are finished."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Any

from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from tgnn.tuning.objective import validation_score
from tgnn.tuning.rounds import PLACE, Final, Round, by_place, distributions, finals_of, is_final, left_of_round
from tgnn.tuning.search_plan import SearchPlan
from tgnn.tuning.storage import SharedStudy

REASON, SCORES, SECONDS = "reason", "scores", "seconds"
"""User attributes of a trial: error message, score on each split, duration in seconds."""

_MAX_LOST_WORKERS = 2
"""A trial fails if more workers than this die while they run it, because it may be the cause."""


def run_trials(
    shared: SharedStudy,
    plan: SearchPlan,
    check: Callable[[], None] = lambda: None,
    on_progress: Callable[[], Any] = lambda: None,
) -> None:
    """Run trials until all are finished, including trials whose worker died.

    Args:
        shared: The study.
        plan: The search.
        check: Called after every epoch. An exception from it ends the worker and releases its trial.
        on_progress: Called between trials.
    """
    higher_is_better = shared.study.direction == StudyDirection.MAXIMIZE
    while left := left_of_round(plan, higher_is_better, by_place(shared.study)):
        check()
        on_progress()
        shared.check()
        leased = _lease(shared, left)
        if leased is None:  # other workers run the remaining trials, but may die
            time.sleep(0.5)
            continue
        place, lost = leased
        with shared.claims.keeping(place):
            ended = by_place(shared.study)
            if place in ended:  # finished between reading the study and leasing the place
                continue
            trial = _run_trial(_next_trial(plan, higher_is_better, place, ended), plan, lost, check)
            trial.user_attrs[PLACE] = place
            if shared.claims.keep(place):  # otherwise the lease expired and another worker runs the trial
                shared.study.add_trial(trial)


def _lease(shared: SharedStudy, places: list[int]) -> tuple[int, int] | None:
    held = shared.claims.held()
    for place in places:
        if place not in held and (lost := shared.claims.take(place)) is not None:
            return place, lost
    return None


def _next_trial(
    plan: SearchPlan, higher_is_better: bool, place: int, ended: Mapping[int, FrozenTrial]
) -> Round | Final:
    if not is_final(place):
        return Round(plan, higher_is_better, place, ended)
    return Final(plan, ended[finals_of(plan, higher_is_better, ended)[place]].params)


class _Pruned(Exception):
    pass


def _run_trial(task: Round | Final, plan: SearchPlan, lost: int, check: Callable[[], None]) -> FrozenTrial:
    """Train on each split, report intermediate scores, and return the finished, pruned or failed trial."""
    started, scores, reports, state = time.monotonic(), list[float](), dict[int, float](), TrialState.COMPLETE
    attributes: dict[str, Any] = {}

    def report(score: float, step: int) -> None:
        reports[step] = score
        if task.should_prune(score, step):
            raise _Pruned

    try:
        if lost > _MAX_LOST_WORKERS:
            raise RuntimeError(f"its worker died {lost} times")
        for split in task.splits:
            config = plan.trial_config(task.params, split)
            every = max(1, config.train.epochs // 5)

            def on_epoch(epoch: int, score: float, every: int = every) -> None:
                check()
                if not scores and (epoch + 1) % every == 0:  # later splits report at their end only
                    report(score, epoch + 1)

            score = validation_score(config, on_epoch)
            if not math.isfinite(score):
                raise ValueError("the validation metric is not finite")
            scores.append(score)
            if split != task.splits[-1]:
                report(fmean(scores), config.train.epochs * (split + 2))
    except _Pruned:
        state = TrialState.PRUNED
    except OSError:  # a problem of the machine, not of the hyperparameters
        raise
    except Exception as error:
        state, reports = (
            TrialState.PRUNED,
            {},
        )  # the sampler ignores failed trials, but avoids the hyperparameters of pruned ones
        attributes[REASON] = str(error) or type(error).__name__
    return create_trial(
        state=state,
        value=fmean(scores) if state == TrialState.COMPLETE else None,
        params=task.params,
        distributions=distributions(plan),
        intermediate_values=reports,
        user_attrs={**attributes, SCORES: scores, SECONDS: round(time.monotonic() - started, 2)},
    )
