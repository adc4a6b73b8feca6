"""How a search went: each trial, and the best so far."""

from __future__ import annotations

from tgnn.report.figure import Figure
from tgnn.report.lines import Curve, Mark, legend, line_chart
from tgnn.report.numbers import metric, number
from tgnn.tuning.results import StudyResult, Trial

_BEST = 1
_SIGNS = {"complete": (0, ""), "pruned": (0, "hollow"), "failed": (7, "bad")}
"""Style and kind of the sign of each state."""


def history_figure(study: StudyResult, width: float) -> Figure | None:
    """Score against number; nothing where no trial has ended."""
    ended = [trial for trial in study.trials if trial.state in _SIGNS]
    if not ended:
        return None
    curve = _best_so_far(ended, study.higher_is_better)
    marks = [Mark(trial.number, _height(trial), *_SIGNS[trial.state], _tip(trial)) for trial in ended]
    name = f"validation {study.metric}"
    best = study.best
    said = f"Validation {study.metric} of {len(ended)} trials"
    said += f", the best {metric(best.score)} of trial {best.number}" if best is not None else ""
    panel = line_chart("", [curve], "trial", name, width=width, height=270, marks=marks, label=said)
    note = "A pruned trial stands where it was given up." if study.count("pruned") else ""
    note += " Signs under the axis have no score." if any(mark.y is None for mark in marks) else ""
    signs = {f"{state} ({count})": Mark(0, 0, *sign) for state, sign in _SIGNS.items() if (count := study.count(state))}
    return Figure("History", [panel], legend([curve], signs), note.strip())


def _best_so_far(ended: list[Trial], higher_is_better: bool) -> Curve:
    """In steps, from the first score on."""
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
    words = f"trial {trial.number}: {trial.state}"
    words += f" {metric(height)}" if (height := _height(trial)) is not None else ""
    return words + (f", {trial.reason}" if trial.reason else "")
