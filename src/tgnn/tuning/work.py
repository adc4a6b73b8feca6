"""A worker: takes a trial that nobody has, does it, and takes the next, until every trial has ended."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Any

from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from tgnn.tuning.objective import validation_score
from tgnn.tuning.plan import Plan
from tgnn.tuning.rounds import PLACE, Final, Round, by_place, distributions, finals_of, is_final, left_of_round
from tgnn.tuning.storage import Shared

REASON, SCORES, SECONDS = "reason", "scores", "seconds"
"""Notes of a trial: why it failed, its score on each split, how long it took."""

_MOST_LOST = 2
"""A trial whose worker is killed more often is given up: it may be what kills them."""


def work(
    shared: Shared, plan: Plan, check: Callable[[], None] = lambda: None, tell: Callable[[], Any] = lambda: None
) -> None:
    """Does trials of a study until all have ended, those of workers that were killed among them.

    Args:
        shared: The study.
        plan: The search.
        check: Called often; what it raises ends the work, and the trial that was begun is put back.
        tell: Called between trials.
    """
    higher_is_better = shared.study.direction == StudyDirection.MAXIMIZE
    while left := left_of_round(plan, higher_is_better, by_place(shared.study)):
        check()
        tell()
        shared.check()
        taken = _take(shared, left)
        if taken is None:  # the rest is with others, who may be killed
            time.sleep(0.5)
            continue
        place, lost = taken
        with shared.claims.keeping(place):
            ended = by_place(shared.study)
            if place in ended:  # between the look and the claim
                continue
            trial = _do(_what_to_do(plan, higher_is_better, place, ended), plan, lost, check)
            trial.user_attrs[PLACE] = place
            if shared.claims.keep(place):  # else this worker slept for so long that another does the trial
                shared.study.add_trial(trial)


def _take(shared: Shared, places: list[int]) -> tuple[int, int] | None:
    held = shared.claims.held()
    for place in places:
        if place not in held and (lost := shared.claims.take(place)) is not None:
            return place, lost
    return None


def _what_to_do(plan: Plan, higher_is_better: bool, place: int, ended: Mapping[int, FrozenTrial]) -> Round | Final:
    if not is_final(place):
        return Round(plan, higher_is_better, place, ended)
    return Final(plan, ended[finals_of(plan, higher_is_better, ended)[place]].params)


class _Pruned(Exception):
    pass


def _do(round_: Round | Final, plan: Plan, lost: int, check: Callable[[], None]) -> FrozenTrial:
    """One trial, from its settings to what is kept of it."""
    started, scores, reports, state = time.monotonic(), list[float](), dict[int, float](), TrialState.COMPLETE
    notes: dict[str, Any] = {}

    def report(score: float, step: int) -> None:
        reports[step] = score
        if round_.is_hopeless(score, step):
            raise _Pruned

    try:
        if lost > _MOST_LOST:
            raise RuntimeError(f"its worker was killed, {lost} times")
        for split in round_.splits:
            config = plan.config_of(round_.values, split)
            every = max(1, config.train.epochs // 5)

            def look(epoch: int, score: float, every: int = every) -> None:
                check()
                if not scores and (epoch + 1) % every == 0:  # the other splits are judged at their ends
                    report(score, epoch + 1)

            score = validation_score(config, look)
            if not math.isfinite(score):
                raise ValueError("the validation metric is not a number")
            scores.append(score)
            if split != round_.splits[-1]:
                report(fmean(scores), config.train.epochs * (split + 2))
    except _Pruned:
        state = TrialState.PRUNED
    except OSError:  # of this machine, not of the settings
        raise
    except Exception as error:
        state, reports = TrialState.PRUNED, {}  # Optuna learns nothing from trials that failed, but from these it does
        notes[REASON] = str(error) or type(error).__name__
    return create_trial(
        state=state,
        value=fmean(scores) if state == TrialState.COMPLETE else None,
        params=round_.values,
        distributions=distributions(plan),
        intermediate_values=reports,
        user_attrs={**notes, SCORES: scores, SECONDS: round(time.monotonic() - started, 2)},
    )
