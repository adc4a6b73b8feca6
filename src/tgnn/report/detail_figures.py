"""Charts of the details of a test result: confusion matrix, reliability curve, predicted values, errors by degree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from tgnn.report.charts import (
    Chart,
    ReportFigure,
    curve,
    hover_labels,
    plain_text,
    rounded,
    scatter,
    shorten,
    value_range,
)
from tgnn.report.row_charts import Bar, bar_chart
from tgnn.training.result_details import Calibration, ResultDetails, TargetScores

_MAX_CLASSES = 30
"""Number of classes up to which the confusion matrix is drawn."""
_MAX_TARGETS = 6
"""Number of targets whose predicted values, and of labels whose confusion matrices are drawn."""


def detail_figures(metrics: Mapping[str, Any]) -> list[ReportFigure]:
    """Draw the details of a test result. A result without details, or with damaged ones, has no charts."""
    try:
        details = ResultDetails.model_validate(metrics.get("details"))
    except ValidationError:
        return []
    figures = []
    if details.confusion and details.classes and 1 < len(details.classes) <= _MAX_CLASSES:
        chart = _confusion([row.name for row in details.classes], details.confusion)
        note = "Number of test examples. The color is the fraction of the true class."
        figures.append(ReportFigure("Confusion matrix", [chart], note))
    if labels := [row for row in details.classes or [] if row.confusion and row.test]:
        charts = [_confusion(("no", "yes"), row.confusion or [], row.name) for row in labels[:_MAX_TARGETS]]
        more = f" The first {_MAX_TARGETS} of {len(labels)} labels." if len(labels) > _MAX_TARGETS else ""
        figures.append(ReportFigure("Confusion matrix of each label", charts, f"Number of test examples.{more}"))
    if details.calibration is not None and details.calibration.bins:
        figures.append(
            ReportFigure("Reliability curve", [_reliability(details.calibration)], _describe(details.calibration))
        )
    if targets := [target for target in details.targets or [] if target.points]:
        charts = [_predicted(target, len(targets) > 1) for target in targets[:_MAX_TARGETS]]
        figures.append(ReportFigure("Predicted against true", charts))
    if len(details.errors) > 1:
        name = "degree of the node" if details.errors_by == "degree" else "number of nodes of the graph"
        error = "error rate" if details.targets is None else "standardized error"
        bars = []
        for group in details.errors:
            label = str(group.low) if group.low == group.high else f"{group.low} to {group.high}"
            bars.append(
                Bar(label, group.error, f"{group.error:.3g}", f"{label}: {group.error:.4g} ({group.count:,} examples)")
            )
        figures.append(ReportFigure(f"Errors by {name}", [bar_chart("", bars, error)]))
    return figures


def _confusion(names: Sequence[str], matrix: Sequence[Sequence[int]], title: str = "") -> Chart:
    fractions = [[value / max(sum(row), 1) for value in row] for row in matrix]
    labels = [
        [f"true {names[i]}, predicted {names[j]}: {value:,}" for j, value in enumerate(row)]
        for i, row in enumerate(matrix)
    ]
    ticks = [plain_text(shorten(name, 14)) for name in names]
    trace: dict[str, Any] = {
        "type": "heatmap",
        "z": [rounded(row) for row in fractions],
        "zmin": 0,
        "zmax": 1,
        "colorscale": [[0, "rgba(0,114,178,0.04)"], [1, "rgba(0,114,178,0.85)"]],
        "showscale": False,
        "customdata": [[plain_text(text) for text in row] for row in labels],
        "hovertemplate": "%{customdata}<extra></extra>",
    }
    if len(names) <= 12:
        trace |= {"text": [[f"{value:,}" for value in row] for row in matrix], "texttemplate": "%{text}"}
    axis = {"tickvals": list(range(len(names))), "ticktext": ticks, "showgrid": False}
    layout = {
        "showlegend": False,
        "xaxis": {**axis, "title": {"text": "predicted"}},
        "yaxis": {**axis, "title": {"text": "true"}, "autorange": "reversed"},
    }
    wrong = [text for i, row in enumerate(labels) for j, text in enumerate(row) if i != j and matrix[i][j]]
    correct = sum(row[i] for i, row in enumerate(matrix))
    total = sum(map(sum, matrix))
    alternative = f"{correct:,} of {total:,} correct; " + "; ".join(wrong[:12])
    return Chart(title, alternative, [trace], layout, 130 + max(26 * min(len(names), 14), 80))


def _describe(calibration: Calibration) -> str:
    text = f"Expected calibration error {calibration.error:.4f}"
    if calibration.error_before is None:
        return f"{text}. The dashed line is perfect calibration."
    return f"{text} with temperature {calibration.temperature:.2f}, {calibration.error_before:.4f} without scaling."


def _reliability(calibration: Calibration) -> Chart:
    confidences, accuracies = ([bin[i] for bin in calibration.bins] for i in (0, 1))
    labels = [f"confidence {c:.3f}, accuracy {a:.3f}, {count:,} predictions" for c, a, count in calibration.bins]
    model = curve("model", confidences, accuracies, 0, markers=True) | hover_labels(labels)
    layout = _square("confidence", "accuracy", (0.0, 1.0))
    return Chart("", "; ".join(labels), [_diagonal((0.0, 1.0)), model], layout, 290)


def _predicted(target: TargetScores, is_named: bool) -> Chart:
    true, predicted = ([point[i] for point in target.points] for i in (0, 1))
    scores = ", ".join(
        f"{name} {value:.4g}" for name in ("mae", "rmse", "r2") if (value := getattr(target, name)) is not None
    )
    marker = {"color": "var(--c0)", "size": 6, "opacity": 0.6}
    points = scatter("test examples", "markers", true, predicted, marker=marker)
    ends = value_range([*true, *predicted])
    title = f"{target.name}: {scores}" if is_named else scores
    return Chart(
        title,
        f"predicted against true values, {scores}",
        [_diagonal(ends), points],
        _square("true", "predicted", ends),
        290,
    )


def _diagonal(ends: tuple[float, float]) -> dict[str, Any]:
    line = {"color": "var(--muted)", "dash": "dash", "width": 1}
    return scatter("equal", "lines", ends, ends, line=line, hoverinfo="skip")


def _square(x_name: str, y_name: str, ends: tuple[float, float]) -> dict[str, Any]:
    axes = {
        key: {"title": {"text": name}, "range": rounded(ends)} for key, name in (("xaxis", x_name), ("yaxis", y_name))
    }
    return {"hovermode": "closest", "showlegend": False, **axes}
