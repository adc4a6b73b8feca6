"""Section of the report page for a hyperparameter search. It reads ``study.json`` and does not need Optuna."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from tgnn.report.charts import ReportFigure, Trace, curve, labeled_points, line_chart
from tgnn.report.number_format import metric, number, rate
from tgnn.report.row_charts import Bar, bar_chart
from tgnn.report.sections import (
    ReportSection,
    ReportTable,
    TableCell,
    flatten,
    number_cell,
    text_cell,
)
from tgnn.tuning.results import RECIPE_FILE, StudyResult, Trial, format_value, short_names

_TONES = {"complete": "finished", "pruned": "running", "failed": "failed"}
"""Style of each state of a trial that has ended."""
_AFTER_RESULTS = 100


def read_study_section(path: Path, key: str) -> ReportSection:
    """Read a study, and the recipe next to it if there is one, and build the section."""
    study = StudyResult.read(path)
    recipe = path.with_name(RECIPE_FILE)
    ended = [trial for trial in study.trials if trial.state in _TONES]
    ranges = {name: ", ".join(map(format_value, values)) for name, values in study.space.items()}
    over = f"{study.splits} split{'s' * (study.splits != 1)}"
    return ReportSection(
        key=key,
        title=f"Hyperparameter search: {study.model} on {study.data}, {study.metric} over {over} ({study.split})",
        name=study.name,
        command=study.command,
        notes=_progress_notes(study),
        tables=[_trials_table(study, ended)],
        figures=[*_history_figures(study, ended), *_importance_figures(study)],
        collapsed=f"Show all {len(ended)} trials",
        recipe=(
            (f"Best hyperparameters (trial {study.best.number})", recipe.read_text(encoding="utf-8"))
            if study.best is not None and recipe.exists()
            else None
        ),
        lists=[
            ("Search space", ranges),
            ("Environment", flatten(study.environment)),
            ("Hashes", {"data": study.data_hash}),
        ],
        environment=study.environment,
        order=_AFTER_RESULTS,
    )


def _progress_notes(study: StudyResult) -> list[str]:
    done = study.count(*_TONES)
    note = f"{done} of {study.num_trials} trials have ended"
    parts = [f"{count} {state}" for state in ("pruned", "failed") if (count := study.count(state))]
    note += f" ({', '.join(parts)})" if parts else ""
    running = study.count("running")
    note += f", {running} were running when the file was written." if running else "."
    best = study.best
    if best is not None:
        note += f" The best is trial {best.number} with a validation {study.metric} of {metric(best.score)}"
        last = next((trial for trial in study.final_ranking if trial.number == best.number), None)
        if last is not None:
            count, failed = len(study.final_ranking), len(study.finals) - len(study.final_ranking)
            evaluated = f"{count} evaluated" + (f", {failed} failed" if failed else "")
            note += f", and {metric(last.score)} in the final evaluation on other {study.unit}s ({evaluated})"
        note += "."
    later = "The importance of the hyperparameters is computed when a search of at least 30 trials ends."
    return [note, later] if done < study.num_trials and not study.importance else [note]


# ---- figures ---------------------------------------------------------------------------------------------------


def _history_figures(study: StudyResult, ended: Sequence[Trial]) -> list[ReportFigure]:
    """Draw the score of each trial and the best score so far. Failed trials have no score."""
    points = []
    for state, symbol in (("complete", "circle"), ("pruned", "circle-open")):
        scored = [
            (trial.number, score)
            for trial in ended
            if trial.state == state
            and (score := number(trial.last_score if state == "pruned" else trial.score)) is not None
        ]
        if scored:
            labels = [f"trial {trial}: {state} {metric(score)}" for trial, score in scored]
            trials, scores = zip(*scored)
            points.append(
                labeled_points(f"{state} ({study.count(state)})", trials, scores, labels, "var(--c0)", symbol)
            )
    if not points:
        return []
    alternative = f"Validation {study.metric} of {len(ended)} trials"
    if study.best is not None:
        alternative += f", best {metric(study.best.score)} in trial {study.best.number}"
    curves = [_best_so_far(ended, study.higher_is_better)]
    y_name = f"validation {study.metric}"
    chart = line_chart("", curves, "trial", y_name, points=points, height=275, alternative=alternative)
    note = "Pruned trials show the score at which they were pruned." if study.count("pruned") else ""
    return [ReportFigure("Search history", [chart], note)]


def _best_so_far(ended: Sequence[Trial], higher_is_better: bool) -> Trace:
    """Return the best score so far as a step curve."""
    worst, better = (-math.inf, max) if higher_is_better else (math.inf, min)
    scores = [number(trial.score) if trial.state == "complete" else None for trial in ended]
    best = accumulate((worst if score is None else score for score in scores), better)
    trace = curve("best so far", [trial.number for trial in ended], [number(score) for score in best], 1)
    trace["line"]["shape"] = "hv"
    return trace


def _importance_figures(study: StudyResult) -> list[ReportFigure]:
    names = short_names(list(study.importance))
    percents = {names[key]: 100 * value for key, value in study.importance.items() if number(value) is not None}
    if not percents:
        return []
    order = sorted(percents.items(), key=lambda pair: -pair[1])
    bars = [Bar(name, percent, f"{percent:.0f} %", f"{name}: {percent:.1f} %") for name, percent in order]
    note = "Fraction of the variance of the scores that each hyperparameter explains (fANOVA)."
    return [ReportFigure("Importance of hyperparameters", [bar_chart("", bars, "importance, %")], note)]


# ---- table -----------------------------------------------------------------------------------------------------


def _trials_table(study: StudyResult, ended: Sequence[Trial]) -> ReportTable:
    names = short_names(list(study.space))
    finals = {trial.number: trial for trial in study.finals}
    reasons = [trial.reason or finals.get(trial.number, trial).reason for trial in ended]
    headers = ["trial", "state", study.metric, *([f"on other {study.unit}s"] if finals else []), "seconds"]
    headers += [*names.values(), *(["reason"] if any(reasons) else [])]
    rows = []
    for trial, reason in zip(ended, reasons):
        is_best = study.best is not None and trial.number == study.best.number
        row = [
            TableCell(str(trial.number), trial.number),
            text_cell(trial.state, tone=_TONES[trial.state]),
            _score_cell(trial, is_best and not finals),
            *([_final_cell(finals.get(trial.number), is_best)] if finals else []),
            number_cell(number(trial.seconds), rate),
            *(_hyperparameter_cell(trial, name) for name in names),
            *([text_cell(reason)] if any(reasons) else []),
        ]
        rows.append(row)
    return ReportTable(headers, rows, "Below a score: the score of each split.")


def _score_cell(trial: Trial, is_best: bool) -> TableCell:
    """Show the score of a trial. A star marks the best trial."""
    splits = ", ".join(metric(score) for score in trial.scores)
    return TableCell(metric(trial.score), number(trial.score), [splits], "best" if is_best else "")


def _final_cell(final: Trial | None, is_best: bool) -> TableCell:
    """Show the score of the final evaluation of a trial, or that it failed."""
    if final is None or final.score is not None:
        return TableCell() if final is None else _score_cell(final, is_best)
    return text_cell(final.state, tone=_TONES.get(final.state, ""))


def _hyperparameter_cell(trial: Trial, key: str) -> TableCell:
    if key not in trial.params:
        return TableCell()
    value = trial.params[key]
    is_number = isinstance(value, float | int) and not isinstance(value, bool)
    return TableCell(format_value(value), value if is_number else format_value(value))
