"""A search for settings as a part of the page; read without Optuna."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from tgnn.report.bars import share_chart
from tgnn.report.details import flat
from tgnn.report.figure import Figure
from tgnn.report.history import history_figure
from tgnn.report.numbers import metric, number, rate
from tgnn.report.results import typed
from tgnn.report.section import Section, slug
from tgnn.report.tables import Cell, Table
from tgnn.tuning.results import RECIPE_FILE, StudyResult, Trial, format_value, short_names

_WIDTH = 400.0
_TONES = {"complete": "finished", "pruned": "running", "failed": "failed", "running": "running"}


def read_study(path: Path) -> tuple[StudyResult, str]:
    """A study whose every field is of its type, and the recipe beside it, if there is one."""
    try:
        study = typed(StudyResult, asdict(StudyResult.read(path)), path)
    except RecursionError as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    recipe = path.with_name(RECIPE_FILE)
    return study, recipe.read_text(encoding="utf-8") if recipe.exists() else ""


def make_study(study: StudyResult, recipe: str, number_: int) -> Section:
    """Plots, the best settings, and all trials; ``number_`` tells it from others of its name."""
    key = f"study-{number_}-{slug(study.name)}"
    best, shown = study.best, [trial for trial in study.trials if trial.state != "running"]
    figures = (history_figure(study, _WIDTH), _importance(study))
    ranges = {name: ", ".join(map(format_value, values)) for name, values in study.space.items()}
    lists = [("Ranges", ranges), ("Environment", flat(study.environment)), ("Hashes", {"data": study.data_hash})]
    over = f"{study.splits} split{'s' * (study.splits != 1)}"
    return Section(
        key=key,
        title=f"Search: {study.model} on {study.data}, {study.metric} over {over} ({study.split})",
        name=study.name,
        command=study.command,
        notes=_so_far(study),
        tables=[("", _trials(study, shown, f"{key}-trials"))],
        figures=[figure for figure in figures if figure is not None],
        environment=study.environment,
        drawn=True,
        order=0,
        summary=f"All {len(shown)} trials",
        recipe=(f"Best settings (trial {best.number})", recipe) if best is not None and recipe else None,
        lists=lists,
    )


def _so_far(study: StudyResult) -> list[str]:
    done = study.count("complete", "pruned", "failed")
    words = f"{done} of {study.num_trials} trials have ended"
    parts = [f"{count} {state}" for state in ("pruned", "failed") if (count := study.count(state))]
    words += f" ({', '.join(parts)})" if parts else ""
    best = study.best
    if best is not None:
        words += f"; the best, trial {best.number}, has validation {study.metric} {metric(best.score)}"
        last = next((trial for trial in study.final_ranking if trial.number == best.number), None)
        if last is not None:
            count, failed = len(study.final_ranking), len(study.finals) - len(study.final_ranking)
            there = f"{count} judged there" + (f", {failed} failed" if failed else "")
            words += f", and {metric(last.score)} on other {study.unit}s ({there})"
    running = study.count("running")
    words += f"; {running} running when this was written." if running else "."
    later = "How much each setting matters is told when the search ends."
    return [words, later] if done < study.num_trials and not study.importance else [words]


def _importance(study: StudyResult) -> Figure | None:
    shares = {key: share for key, share in study.importance.items() if number(share) is not None}
    if not shares:
        return None
    names = short_names(list(shares))
    chart = share_chart("", {names[key]: share for key, share in shares.items()}, "share", _WIDTH)
    return Figure(
        "Importance", [chart], note="How much of the difference between scores goes with each setting (fANOVA)."
    )


def _trials(study: StudyResult, shown: Sequence[Trial], key: str) -> Table:
    names = short_names(list(study.space))
    finals = {trial.number: trial for trial in study.finals}
    reasons = {trial.number: trial.reason or finals.get(trial.number, trial).reason for trial in shown}
    judged = [study.metric, f"on other {study.unit}s"] if finals else [study.metric]
    headers = ["trial", "state", *judged, "seconds", *names.values(), *(["reason"] if any(reasons.values()) else [])]
    rows = []
    for trial in shown:
        row = [
            Cell(str(trial.number), trial.number),
            Cell(trial.state, trial.state, tone=_TONES.get(trial.state, "")),
            *_scores(trial, finals, study.best),
            Cell(rate(number(trial.seconds)), number(trial.seconds)),
            *(_setting(trial, name) for name in names),
        ]
        reason = reasons[trial.number]
        rows.append([*row, *([Cell(reason, reason or None)] if any(reasons.values()) else [])])
    note = "Under a score: that of each split."
    return Table(key, headers, rows, note, frozenset(range(2, 3 + len(judged))))


def _scores(trial: Trial, finals: Mapping[int, Trial], best: Trial | None) -> list[Cell]:
    """In the search and, where the best were judged once more, there; a star where the best was chosen."""
    is_best = best is not None and trial.number == best.number
    if not finals:
        return [_score(trial, is_best)]
    final = finals.get(trial.number)
    if final is None or final.score is None:
        words = final.state if final else ""
        return [_score(trial, False), Cell(words, words or None, tone=_TONES.get(words, ""))]
    return [_score(trial, False), _score(final, is_best)]


def _score(trial: Trial, is_best: bool) -> Cell:
    splits = (", ".join(metric(score) for score in trial.scores),) if trial.scores else ()
    return Cell(
        metric(trial.score), number(trial.score), splits, "best" if is_best else "", badge="★" if is_best else ""
    )


def _setting(trial: Trial, key: str) -> Cell:
    if key not in trial.params:
        return Cell("")
    value = trial.params[key]
    return Cell(
        format_value(value),
        value if isinstance(value, float | int) and not isinstance(value, bool) else format_value(value),
    )
