"""Section of the report page for a hyperparameter search. It reads ``study.json`` and does not need Optuna."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from tgnn.report.charts import ReportFigure
from tgnn.report.number_format import metric, number, rate
from tgnn.report.result_reader import validate_fields
from tgnn.report.result_section import ReportSection, slug
from tgnn.report.row_charts import Bar, bar_chart
from tgnn.report.run_details import flatten
from tgnn.report.study_history import history_figure
from tgnn.report.tables import ReportTable, TableCell
from tgnn.tuning.results import RECIPE_FILE, StudyResult, Trial, format_value, short_names

_TONES = {"complete": "finished", "pruned": "running", "failed": "failed", "running": "running"}


def read_study(path: Path) -> tuple[StudyResult, str]:
    """Read and validate a study, and the recipe next to it if there is one."""
    try:
        study = validate_fields(StudyResult, asdict(StudyResult.read(path)), path)
    except RecursionError as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    recipe = path.with_name(RECIPE_FILE)
    return study, recipe.read_text(encoding="utf-8") if recipe.exists() else ""


def make_study(study: StudyResult, recipe: str, number_: int) -> ReportSection:
    """Build the section of a study. ``number_`` makes its HTML id unique."""
    key = f"study-{number_}-{slug(study.name)}"
    best, shown = study.best, [trial for trial in study.trials if trial.state != "running"]
    figures = (history_figure(study), _importance(study))
    ranges = {name: ", ".join(map(format_value, values)) for name, values in study.space.items()}
    lists = [
        ("Search space", ranges),
        ("Environment", flatten(study.environment)),
        ("Hashes", {"data": study.data_hash}),
    ]
    over = f"{study.splits} split{'s' * (study.splits != 1)}"
    return ReportSection(
        key=key,
        title=f"Hyperparameter search: {study.model} on {study.data}, {study.metric} over {over} ({study.split})",
        name=study.name,
        command=study.command,
        notes=_progress_notes(study),
        tables=[("", _trials(study, shown, f"{key}-trials"))],
        figures=[figure for figure in figures if figure is not None],
        environment=study.environment,
        drawn=True,
        order=0,
        summary=f"Show all {len(shown)} trials",
        recipe=(f"Best hyperparameters (trial {best.number})", recipe) if best is not None and recipe else None,
        lists=lists,
    )


def _progress_notes(study: StudyResult) -> list[str]:
    done = study.count("complete", "pruned", "failed")
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
    later = "The importance of the hyperparameters is computed when the search ends."
    return [note, later] if done < study.num_trials and not study.importance else [note]


def _importance(study: StudyResult) -> ReportFigure | None:
    importance = {key: value for key, value in study.importance.items() if number(value) is not None}
    if not importance:
        return None
    names = short_names(list(importance))
    order = sorted(importance.items(), key=lambda pair: -pair[1])
    bars = [Bar(names[key], 100 * v, f"{100 * v:.0f} %", f"{names[key]}: {100 * v:.1f} %") for key, v in order]
    chart = bar_chart("", bars, "importance, %")
    return ReportFigure(
        "Importance of hyperparameters",
        [chart],
        note="Fraction of the variance of the scores that each hyperparameter explains (fANOVA).",
    )


def _trials(study: StudyResult, shown: Sequence[Trial], key: str) -> ReportTable:
    names = short_names(list(study.space))
    finals = {trial.number: trial for trial in study.finals}
    reasons = {trial.number: trial.reason or finals.get(trial.number, trial).reason for trial in shown}
    score_headers = [study.metric, f"on other {study.unit}s"] if finals else [study.metric]
    headers = [
        "trial",
        "state",
        *score_headers,
        "seconds",
        *names.values(),
        *(["reason"] if any(reasons.values()) else []),
    ]
    rows = []
    for trial in shown:
        row = [
            TableCell(str(trial.number), trial.number),
            TableCell(trial.state, trial.state, tone=_TONES.get(trial.state, "")),
            *_scores(trial, finals, study.best),
            TableCell(rate(number(trial.seconds)), number(trial.seconds)),
            *(_hyperparameter(trial, name) for name in names),
        ]
        reason = reasons[trial.number]
        rows.append([*row, *([TableCell(reason, reason or None)] if any(reasons.values()) else [])])
    note = "Below a score: the score of each split."
    return ReportTable(key, headers, rows, note, frozenset(range(2, 3 + len(score_headers))))


def _scores(trial: Trial, finals: Mapping[int, Trial], best: Trial | None) -> list[TableCell]:
    """Return the score in the search and in the final evaluation. A star marks the best trial."""
    is_best = best is not None and trial.number == best.number
    if not finals:
        return [_score(trial, is_best)]
    final = finals.get(trial.number)
    if final is None or final.score is None:
        state = final.state if final else ""
        return [_score(trial, False), TableCell(state, state or None, tone=_TONES.get(state, ""))]
    return [_score(trial, False), _score(final, is_best)]


def _score(trial: Trial, is_best: bool) -> TableCell:
    splits = (", ".join(metric(score) for score in trial.scores),) if trial.scores else ()
    return TableCell(
        metric(trial.score), number(trial.score), splits, "best" if is_best else "", badge="★" if is_best else ""
    )


def _hyperparameter(trial: Trial, key: str) -> TableCell:
    if key not in trial.params:
        return TableCell("")
    value = trial.params[key]
    return TableCell(
        format_value(value),
        value if isinstance(value, float | int) and not isinstance(value, bool) else format_value(value),
    )
