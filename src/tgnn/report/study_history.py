"""History chart of a hyperparameter search: the score of each trial and the best score so far."""

from __future__ import annotations

from tgnn.report.line_chart import Curve, Mark, legend, line_chart
from tgnn.report.number_format import metric, number
from tgnn.report.report_figure import ReportFigure
from tgnn.tuning.results import StudyResult, Trial

_BEST = 1
_SIGNS = {"complete": (0, ""), "pruned": (0, "hollow"), "failed": (7, "bad")}
"""Marker style and class of each state."""


def history_figure(study: StudyResult, width: float) -> ReportFigure | None:
    """Draw the score of each trial, or return ``None`` if no trial has ended."""
    ended = [trial for trial in study.trials if trial.state in _SIGNS]
    if not ended:
        return None
    curve = _best_so_far(ended, study.higher_is_better)
    marks = [Mark(trial.number, _height(trial), *_SIGNS[trial.state], _tip(trial)) for trial in ended]
    name = f"validation {study.metric}"
    best = study.best
    label = f"Validation {study.metric} of {len(ended)} trials"
    label += f", best {metric(best.score)} in trial {best.number}" if best is not None else ""
    panel = line_chart("", [curve], "trial", name, width=width, height=270, marks=marks, label=label)
    note = "Pruned trials show the score at which they were pruned." if study.count("pruned") else ""
    note += " Markers below the axis have no score." if any(mark.y is None for mark in marks) else ""
    signs = {f"{state} ({count})": Mark(0, 0, *sign) for state, sign in _SIGNS.items() if (count := study.count(state))}
    return ReportFigure("Search history", [panel], legend([curve], signs), note.strip())


def _best_so_far(ended: list[Trial], higher_is_better: bool) -> Curve:
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
    return Curve("best so far", xs, ys, _BEST)


def _height(trial: Trial) -> float | None:
    return number({"complete": trial.score, "pruned": trial.last_score}.get(trial.state))


def _tip(trial: Trial) -> str:
    tip = f"trial {trial.number}: {trial.state}"
    tip += f" {metric(height)}" if (height := _height(trial)) is not None else ""
    return tip + (f", {trial.reason}" if trial.reason else "")
