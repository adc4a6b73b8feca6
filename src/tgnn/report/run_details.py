"""Details of one run: learning curves, configuration, environment and hashes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tgnn.report.charts import ReportFigure
from tgnn.report.line_chart import Curve, line_chart
from tgnn.report.number_format import number
from tgnn.report.result_figures import mixing_curves
from tgnn.report.runs import Run


@dataclass(frozen=True)
class RunDetails:
    """Details shown in the dialog of a run.

    Args:
        key: HTML id.
        run: The run.
        figures: Learning curves and diagnostics.
        lists: Configuration, environment and hashes, each with a heading.
    """

    key: str
    run: Run
    figures: Sequence[ReportFigure]
    lists: Sequence[tuple[str, Mapping[str, str]]]


def make_details(run: Run, number_: int, points: int) -> RunDetails:
    """Build the details of a run. ``number_`` makes its HTML id unique. Each curve has at most ``points`` points."""
    lists = [
        ("Configuration", flatten(run.config)),
        ("Environment", flatten(run.environment)),
        ("Hashes", run.hashes),
    ]
    return RunDetails(
        f"run-{number_}", run, curves_of(run, points), [(name, values) for name, values in lists if values]
    )


def curves_of(run: Run, points: int) -> list[ReportFigure]:
    """Draw the learning curves, the branch weights and the diagnostics of the product branch."""
    best = None if run.best_epoch is None else float(run.best_epoch)
    figures = []
    losses = [_curve(run, name, style) for style, name in enumerate(("loss", "val_loss"))]
    scores = [_curve(run, f"val_{run.metric}", 2, 0)] if run.metric else []
    charts = [
        line_chart("", present, "epoch", name, at=best, max_points=points)
        for name, curves in (("loss", losses), (f"validation {run.metric}", scores))
        if (present := [curve for curve in curves if curve is not None])
    ]
    if charts:
        note = "" if best is None else "The dotted line marks the best epoch on the validation set."
        figures.append(ReportFigure("Learning curves", charts, note))
    mixing = mixing_curves({name: _values(run, name) for name in _names(run, "a_high", "a_low")})
    if mixing:
        chart = line_chart("", mixing, "epoch", "branch weight", max_points=points)
        figures.append(ReportFigure("Branch weights", [chart]))
    health = [
        curve
        for style, name in enumerate(_names(run, "saturated/", "vanished/"))
        if (curve := _curve(run, name, style, int(name.startswith("vanished")))) is not None
    ]
    if health:
        chart = line_chart("", health, "epoch", "fraction of products", max_points=points)
        figures.append(ReportFigure("Saturated and vanished products", [chart]))
    return figures


def _names(run: Run, *starts: str) -> list[str]:
    return list(dict.fromkeys(key for line in run.history for key in line if key.startswith(starts)))


def _values(run: Run, name: str) -> list[float | None]:
    return [number(line.get(name)) for line in run.history]


def _curve(run: Run, name: str, style: int, dash: int | None = None) -> Curve | None:
    known = [(float(epoch), value) for epoch, value in enumerate(_values(run, name), 1) if value is not None]
    if not known:
        return None
    return Curve(name, [x for x, _ in known], [y for _, y in known], style, style if dash is None else dash)


def flatten(values: Mapping[str, Any], before: str = "") -> dict[str, str]:
    """Flatten a nested configuration to dotted names.

    Example:
        >>> flatten({"model": {"rank": 8, "mix": None}})
        {'model.rank': '8', 'model.mix': 'none'}
    """
    flat: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, f"{before}{key}.")
        elif isinstance(value, (list, tuple)):
            flat[f"{before}{key}"] = " ".join(str(part) for part in value)
        else:
            flat[f"{before}{key}"] = "none" if value is None else str(value)
    return flat
