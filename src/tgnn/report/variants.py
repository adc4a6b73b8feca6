"""Summary of the user's runs.

Runs that differ only in their seed form one variant. A card shows the best variant of each data set.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from tgnn.report.charts import Chart, ReportFigure
from tgnn.report.number_format import count, metric, number, rate
from tgnn.report.row_charts import Dot, dot_plot
from tgnn.report.runs import Run
from tgnn.report.sections import Card, ReportSection, ReportTable, TableCell, flatten, number_cell, text_cell
from tgnn.training.metrics import HIGHER_IS_BETTER
from tgnn.training.repeated_runs import student_interval

_NOT_SHOWN = ("train.seed", "train.threads", "train.workers", "train.save_every", "train.baselines")
"""Options that do not distinguish variants."""
_MAX_DIFFERENCES = 3


@dataclass(frozen=True)
class Variant:
    """Finished runs with one configuration and different seeds.

    Args:
        name: Name of the model, with the options in which it differs from other variants of the model.
        data: Name of the data set.
        metric: Metric of the runs.
        runs: The runs.
    """

    name: str
    data: str
    metric: str
    runs: Sequence[Run]

    @property
    def tests(self) -> list[float]:
        """Test metric of each run."""
        return [value for run in self.runs if (value := run.number("test")) is not None]

    @property
    def interval(self) -> tuple[float, float] | None:
        """Student's 95% confidence interval of the mean test metric, of at least two runs."""
        return student_interval(self.tests, self.metric) if len(self.tests) > 1 else None

    @property
    def val(self) -> float | None:
        """Mean validation metric."""
        values = [value for run in self.runs if (value := run.number("val")) is not None]
        return fmean(values) if values else None

    @property
    def rank(self) -> float:
        """Mean test metric, negative if higher is better."""
        return (-1 if HIGHER_IS_BETTER[self.metric] else 1) * fmean(self.tests)

    def mean(self, name: str) -> float | None:
        """Return the mean of a number in the metrics of the runs."""
        values = [value for run in self.runs if (value := run.number(name)) is not None]
        return fmean(values) if values else None


def group_runs(runs: Sequence[Run]) -> dict[str, list[Variant]]:
    """Group the finished runs by data set, and there by variant, the best mean test metric first."""
    groups: dict[tuple[str, str, str], dict[str, dict[str, Run]]] = {}
    options: dict[str, dict[str, str]] = {}
    for run in runs:
        if run.state != "finished" or run.text("metric") not in HIGHER_IS_BETTER or run.number("test") is None:
            continue
        flat = flatten(run.config)
        own = {key: value for key, value in flat.items() if key not in _NOT_SHOWN}
        key = json.dumps(own, sort_keys=True)
        options[key] = own
        place = (run.text("data"), run.text("metric"), run.text("data_hash"))
        # A run that was repeated with the same seed, or copied, counts once.
        groups.setdefault(place, {}).setdefault(key, {}).setdefault(flat.get("train.seed", ""), run)
    result: dict[str, list[Variant]] = {}
    for (data, metric_name, _), by_seed in groups.items():
        variants = {key: list(runs_by_seed.values()) for key, runs_by_seed in by_seed.items()}
        found = [
            Variant(_name(key, members[0].text("model"), variants, options), data, metric_name, members)
            for key, members in variants.items()
        ]
        label = data if data not in result else f"{data} ({metric_name})"
        result.setdefault(label, []).extend(sorted(found, key=lambda variant: variant.rank))
    return result


def all_variants(runs: Sequence[Run]) -> list[Variant]:
    """Return the variants of all data sets."""
    return [variant for group in group_runs(runs).values() for variant in group]


def _name(key: str, model: str, variants: Mapping[str, Sequence[Run]], options: Mapping[str, Mapping[str, str]]) -> str:
    """Name a variant by its model, and by the options in which variants of the model differ."""
    same_model = [other for other, members in variants.items() if members[0].text("model") == model]
    own, others = options[key], [options[other] for other in same_model if other != key]
    differing = [
        f"{name.partition('.')[2]} {value}"
        for name, value in own.items()
        if any(other.get(name) != value for other in others)
    ]
    shown = ", ".join(differing[:_MAX_DIFFERENCES]) + (", …" if len(differing) > _MAX_DIFFERENCES else "")
    return f"{model} ({shown})" if shown else model


def summary_section(runs: Sequence[Run]) -> ReportSection | None:
    """Build the first section: a card for the best model of each data set, a comparison chart and a table."""
    groups = group_runs(runs)
    variants = all_variants(runs)
    if not variants:
        return None
    cards = [_card(data, group) for data, group in groups.items()]
    charts = [_chart(data, group) for data, group in groups.items() if len(group) > 1]
    tables = [_table(variants)] if len(variants) > 1 else []
    lead = "The best model of each data set has the best validation metric. Scores are on the test set."
    figures = [ReportFigure("Models by test metric", charts)] if charts else []
    return ReportSection("summary", "Summary", lead, cards=cards, figures=figures, tables=tables)


def _card(data: str, variants: Sequence[Variant]) -> Card:
    sign = 1 if HIGHER_IS_BETTER[variants[0].metric] else -1
    best = max(variants, key=lambda variant: -float("inf") if variant.val is None else sign * variant.val)
    lines = [f"test {best.metric}" + (f", mean of {len(best.tests)} runs" if len(best.tests) > 1 else "")]
    if best.interval is not None:
        lines.append(f"95% confidence interval {metric(best.interval[0])} to {metric(best.interval[1])}")
    for name, score in _baselines(variants).items():
        is_better = sign * score > sign * fmean(best.tests)
        lines.append(f"{name}: {metric(score)}{' (better than the model)' if is_better else ''}")
    lines += [f"best of {len(variants)} models on the validation set"] if len(variants) > 1 else []
    return Card(data, best.name, metric(fmean(best.tests)), lines)


def _baselines(variants: Sequence[Variant]) -> dict[str, float]:
    """Average the baselines over the runs that have scored them, each seed once."""
    scores: dict[str, dict[str, float]] = {}
    for variant in variants:
        for run in variant.runs:
            for row in run.metrics.get("baselines") or []:
                if isinstance(row, dict) and (score := number(row.get("test"))) is not None:
                    scores.setdefault(str(row.get("name")), {})[run.text("split_hash")] = score
    return {name: fmean(values.values()) for name, values in scores.items()}


def _chart(data: str, variants: Sequence[Variant]) -> Chart:
    dots = []
    for variant in variants:
        mean, interval = fmean(variant.tests), variant.interval or (None, None)
        dots.append(Dot(f"{variant.name} {metric(mean)}", mean, *interval))
    lower = "" if HIGHER_IS_BETTER[variants[0].metric] else ", lower is better"
    name = f"test {variants[0].metric}{lower}"
    return dot_plot(data, [variant.name for variant in variants], {"mean and 95% interval": dots}, name)


def _table(variants: Sequence[Variant]) -> ReportTable:
    headers = ["model", "test", "95% interval", "val", "data", "runs", "epochs", "seconds", "parameters"]
    rows = []
    for variant in variants:
        mean = fmean(variant.tests)
        spread = f" ± {metric(stdev(variant.tests))}" if len(variant.tests) > 1 else ""
        low, high = variant.interval or (None, None)
        opens = variant.runs[0].key if len(variant.runs) == 1 else ""
        rows.append(
            [
                text_cell(variant.name, opens=opens),
                TableCell(metric(mean) + spread, mean),
                TableCell("" if low is None else f"{metric(low)} to {metric(high)}", low),
                number_cell(variant.val, metric),
                text_cell(variant.data, variant.metric),
                number_cell(len(variant.tests), count),
                number_cell(variant.mean("epochs"), count),
                number_cell(variant.mean("seconds"), rate),
                number_cell(variant.mean("parameters"), count),
            ]
        )
    return ReportTable(headers, rows, "Runs that differ in their seed only are one row. All runs are listed below.")
