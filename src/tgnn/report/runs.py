"""Runs on the report page: read finished, running and damaged run folders, and build their tables and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tgnn.experiments.results import paper_score
from tgnn.report.charts import ReportFigure, Trace, curve, line_chart, plain_label
from tgnn.report.detail_figures import detail_figures
from tgnn.report.number_format import count, metric, number, rate, signed
from tgnn.report.result_figures import mixing_curves
from tgnn.report.sections import ReportTable, TableCell, flatten, number_cell, text_cell
from tgnn.training.metrics import HIGHER_IS_BETTER, find_best_epoch
from tgnn.training.repeated_runs import summarize
from tgnn.training.run_folder import CONFIG, DATA, ENVIRONMENT, HISTORY, METRICS, RUNS, RunFolder
from tgnn.utils.read import read_content

FILES = (CONFIG, ENVIRONMENT, DATA, METRICS, HISTORY)
_TONES = {"running": "running", "unfinished": "running", "damaged": "damaged"}

History = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Run:
    """Run on the page.

    Args:
        path: Folder of the run.
        key: HTML id of the details.
        name: Name of the folder on the page.
        state: ``"finished"``, ``"running"``, ``"unfinished"`` or ``"damaged"``.
        reason: Why the run is damaged.
        metrics: Contents of ``metrics.json``. Their current values if the run is not finished.
        config: Configuration.
        environment: Software versions and machine.
        figures: Learning curves and diagnostics.
        lists: Configuration, environment and hashes, each with a heading.
    """

    path: Path
    key: str
    name: str
    state: str
    reason: str
    metrics: Mapping[str, Any]
    config: Mapping[str, Any]
    environment: Mapping[str, Any]
    figures: Sequence[ReportFigure]
    lists: Sequence[tuple[str, Mapping[str, str]]]

    @property
    def facts(self) -> list[str]:
        """Model, data, seed and scores, for the first line of the details."""
        facts = [f"{self.text('model')} on {self.text('data')}"]
        if (seed := number(_get(self.config, "train", "seed"))) is not None:
            facts.append(f"seed {seed:.0f}")
        if (test := self.number("test")) is not None:
            facts.append(f"test {self.text('metric')} {metric(test)}")
        if (val := self.number("val")) is not None:
            epoch = self.number("best_epoch")
            facts.append(f"validation {metric(val)}" + ("" if epoch is None else f" at epoch {epoch:.0f}"))
        return facts

    def number(self, name: str) -> float | None:
        """Return a metric as a finite number, or ``None``."""
        return number(self.metrics.get(name))

    def text(self, name: str) -> str:
        """Return a metric as a text, empty if it is missing."""
        return str(self.metrics.get(name) or "")


def read_run(folder: Path, key: str, name: str, max_points: int) -> Run:
    """Read a run folder, with at most ``max_points`` points per curve. Damaged files are named in the ``reason``."""
    files = RunFolder(folder)
    parts: dict[str, dict[str, Any]] = {}
    reasons: list[str] = []
    for file in (CONFIG, ENVIRONMENT, DATA, *([METRICS] if files.is_finished else [])):
        parts[file], problem = read_mapping(folder / file)
        reasons += [problem] if problem else []
    history, problem_of_history = files.read_history()
    reasons += [problem_of_history] if problem_of_history else []
    config, facts, metrics = parts[CONFIG], parts[DATA], parts.get(METRICS, {})
    metric_name = str(metrics.get("metric") or _get(facts, "task", "metric") or "")
    current = {
        "data": _get(facts, "info", "name") or _get(config, "data", "name"),
        "model": _get(config, "model", "name"),
        "metric": metric_name,
        "data_hash": facts.get("data_hash"),
        "split_hash": _get(facts, "split", "hash"),
    }
    if files.is_finished:
        if not reasons and number(metrics.get("test")) is None:
            reasons.append(f"{METRICS} has no test score")
    else:
        select_by = str(_get(config, "train", "select_by") or "metric")
        best = find_best_epoch(history, metric_name, select_by) if metric_name in HIGHER_IS_BETTER else None
        current |= {"epochs": len(history), "seconds": history[-1].get("seconds") if history else None}
        if best is not None:
            current |= {"best_epoch": best, "val": history[best - 1].get(f"val_{metric_name}")}
    metrics = {**current, **metrics}
    state = "finished" if files.is_finished else "running" if files.is_running else "unfinished"
    hashes = {"data": "data_hash", "split": "split_hash", "configuration": "config_hash"}
    lists = {
        "Configuration": flatten(config),
        "Environment": flatten(parts[ENVIRONMENT]),
        "Hashes": {name: str(metrics[key]) for name, key in hashes.items() if metrics.get(key)},
    }
    return Run(
        path=folder,
        key=key,
        name=name,
        state="damaged" if reasons else state,
        reason="; ".join(reasons),
        metrics=metrics,
        config=config,
        environment=parts[ENVIRONMENT],
        figures=[
            *detail_figures(metrics),
            *_figures(history, metric_name, number(metrics.get("best_epoch")), max_points),
        ],
        lists=[(heading, values) for heading, values in lists.items() if values],
    )


def read_mapping(path: Path) -> tuple[dict[str, Any], str]:
    """Read a JSON or YAML file that contains a mapping. Returns the mapping, and the reason if it cannot be read."""
    try:
        found = read_content(path)
    except FileNotFoundError:
        return {}, f"{path.name} is missing"
    except (OSError, ValueError) as error:
        return {}, str(error).replace(str(path), path.name, 1)
    return (found, "") if isinstance(found, dict) else ({}, f"{path.name} contains no mapping")


def _get(values: Any, *keys: str) -> Any:
    """Look up a nested value. ``None`` if it is missing."""
    for key in keys:
        values = values.get(key) if isinstance(values, dict) else None
    return values


# ---- figures ---------------------------------------------------------------------------------------------------


def _figures(history: History, metric_name: str, best_epoch: float | None, max_points: int) -> list[ReportFigure]:
    """Draw the learning curves, the branch weights and the diagnostics of the product branch."""
    names = list(dict.fromkeys(key for line in history for key in line))
    series = {name: [number(line.get(name)) for line in history] for name in names}
    series = {name: values for name, values in series.items() if any(value is not None for value in values)}

    def draw(name: str, style: int, dash: int) -> Trace:
        known = [(epoch, value) for epoch, value in enumerate(series[name], 1) if value is not None]
        return curve(plain_label(name), [epoch for epoch, _ in known], [value for _, value in known], style, dash)

    losses = [draw(name, style, style) for style, name in enumerate(("loss", "val_loss")) if name in series]
    scores = [draw(name, 2, 0) for name in (f"val_{metric_name}",) if name in series]
    charts = [
        line_chart("", curves, "epoch", y_name, mark=best_epoch, max_points=max_points)
        for curves, y_name in ((losses, "loss"), (scores, f"validation {metric_name}"))
        if curves
    ]
    figures = []
    if charts:
        note = "" if best_epoch is None else "The dotted line marks the best epoch on the validation set."
        figures.append(ReportFigure("Learning curves", charts, note))
    weights = mixing_curves({name: series[name] for name in series if name.startswith(("a_high", "a_low"))})
    products = [name for name in series if name.startswith(("saturated/", "vanished/"))]
    health = [draw(name, style, int(name.startswith("vanished"))) for style, name in enumerate(products)]
    for title, curves, y_name in (
        ("Branch weights", weights, "branch weight"),
        ("Saturated and vanished products", health, "fraction of products"),
    ):
        if curves:
            figures.append(ReportFigure(title, [line_chart("", curves, "epoch", y_name, max_points=max_points)]))
    return figures


# ---- tables ----------------------------------------------------------------------------------------------------


def runs_table(runs: Sequence[Run]) -> ReportTable:
    """Build the table of all runs. The name of a run opens its details."""
    headers = ["run", "test", "val", "model", "data", "state", "epochs", "seconds", "parameters"]
    return ReportTable(headers, [_run_row(run) for run in sorted(runs, key=_order)])


def _order(run: Run) -> tuple[str, bool, float]:
    """Sort runs by data set, and there by test metric, the best first. Runs without a score are last."""
    test, sign = run.number("test"), -1 if HIGHER_IS_BETTER.get(run.text("metric"), True) else 1
    return run.text("data"), test is None, 0.0 if test is None else sign * test


def _run_row(run: Run) -> list[TableCell]:
    epochs, planned = run.number("epochs"), number(_get(run.config, "train", "epochs"))
    of_planned = f" of {count(planned)}" if run.state in ("running", "unfinished") and planned else ""
    return [
        text_cell(run.name, run.reason, opens=run.key),
        number_cell(run.number("test"), metric),
        number_cell(run.number("val"), metric),
        text_cell(run.text("model")),
        text_cell(run.text("data"), run.text("metric")),
        text_cell(run.state, tone=_TONES.get(run.state, "finished")),
        TableCell(count(epochs) + of_planned, epochs),
        number_cell(run.number("seconds"), rate),
        number_cell(run.number("parameters"), count),
    ]


def repeated_runs_table(folders: Sequence[tuple[str, Path]], runs: Sequence[Run]) -> ReportTable:
    """Build the table of folders with repeated runs, given by name and path, with the mean of each folder."""
    headers = ["folder", "mean ± std", "95% confidence interval", "model", "data", "metric", "paper", "runs"]
    rows = [_group_row(name, path, [run for run in runs if run.path.parent == path]) for name, path in folders]
    note = (
        "Confidence intervals are Student's t intervals, as in `tgnn train --runs`. Results have bootstrap intervals."
    )
    return ReportTable(headers, rows, note)


def _group_row(name: str, folder: Path, runs: Sequence[Run]) -> list[TableCell]:
    plan, reason = read_mapping(folder / RUNS)
    planned = number(plan.get("runs"))
    done = [run for run in runs if run.number("test") is not None and run.state == "finished"]
    known = [*done, *runs][:1]
    data, model, metric_name = (known[0].text(key) if known else "" for key in ("data", "model", "metric"))
    figure = paper_score(model, data)
    paper = "" if figure is None else f"{metric(figure.value)} ± {metric(figure.spread)}"
    mean, interval, difference = TableCell(), TableCell(), ""
    if done:
        summary = summarize([{**run.metrics, "split": ""} for run in done])
        average, (low, high) = summary["mean"], summary["interval"]
        mean = number_cell(average, metric)
        if len(done) > 1:
            mean = TableCell(f"{metric(average)} ± {metric(summary['std'])}", average)
            interval = TableCell(f"{metric(low)} to {metric(high)}", low)
        difference = "" if figure is None else f"difference {signed(average - figure.value)}"
    progress = str(len(done)) if planned is None else f"{len(done)} of {count(planned)}"
    tone = "damaged" if reason else "running" if len(done) != planned else ""
    return [
        text_cell(name),
        mean,
        interval,
        *(text_cell(text) for text in (model, data, metric_name)),
        TableCell(paper, None if figure is None else figure.value, [difference]),
        TableCell("damaged" if reason else progress, len(done), [reason], tone),
    ]
