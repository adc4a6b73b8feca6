"""History chart of a hyperparameter search: the score of each trial and the best score so far."""

from __future__ import annotations

from collections.abc import Sequence

from tgnn.report.charts import ReportFigure
from tgnn.report.line_chart import Curve, Points, line_chart
from tgnn.report.number_format import metric, number
from tgnn.tuning.results import StudyResult, Trial

_MARKERS = {"complete": ("var(--c0)", "circle"), "pruned": ("var(--c0)", "circle-open"), "failed": ("var(--bad)", "x")}
"""Color and symbol of each state."""


def history_figure(study: StudyResult) -> ReportFigure | None:
    """Draw the score of each trial, or return ``None`` if no trial has ended."""
    ended = [trial for trial in study.trials if trial.state in _MARKERS]
    if not ended:
        return None
    best = study.best
    alternative = f"Validation {study.metric} of {len(ended)} trials"
    alternative += f", best {metric(best.score)} in trial {best.number}" if best is not None else ""
    points = [
        _points(state, [trial for trial in ended if trial.state == state]) for state in _MARKERS if study.count(state)
    ]
    curve = _best_so_far(ended, study.higher_is_better)
    name = f"validation {study.metric}"
    chart = line_chart("", [curve], "trial", name, height=275, points=points, alternative=alternative)
    note = "Pruned trials show the score at which they were pruned." if study.count("pruned") else ""
    return ReportFigure("Search history", [chart], note)


def _best_so_far(ended: Sequence[Trial], higher_is_better: bool) -> Curve:
    """Return the best score so far as a step curve."""
    sign = 1 if higher_is_better else -1
    xs: list[float] = []
    ys: list[float] = []
    for trial in ended:
        score = number(trial.score) if trial.state == "complete" else None
        if not ys and score is None:
            continue
        if ys:
            xs.append(trial.number)
            ys.append(ys[-1])
        if score is not None and (not ys or sign * score > sign * ys[-1]):
            xs.append(trial.number)
            ys.append(score)
    return Curve("best so far", xs, ys, style=1)


def _points(state: str, trials: Sequence[Trial]) -> Points:
    scores = [_score(trial) for trial in trials]
    tips = [_tip(trial, score) for trial, score in zip(trials, scores)]
    return Points(f"{state} ({len(trials)})", [trial.number for trial in trials], scores, tips, *_MARKERS[state])


def _score(trial: Trial) -> float | None:
    return number({"complete": trial.score, "pruned": trial.last_score}.get(trial.state))


def _tip(trial: Trial, score: float | None) -> str:
    tip = f"trial {trial.number}: {trial.state}"
    tip += f" {metric(score)}" if score is not None else ""
    return tip + (f", {trial.reason}" if trial.reason else "")
