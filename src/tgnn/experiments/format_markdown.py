"""Markdown output of a result: the table, the significance tests and the notes."""

from __future__ import annotations

from collections.abc import Sequence

from tgnn.experiments.captions import result_layout, result_notes, result_title
from tgnn.experiments.failure_messages import long_reasons, shorten_reason
from tgnn.experiments.paper_figures import find_paper_figure
from tgnn.experiments.results import CellResult, Result
from tgnn.experiments.statistics import (
    SIGNIFICANCE_LEVEL,
    TrainingCosts,
    average_ranks,
    paper_p_value,
    reference_p_values,
    reference_row,
    summarize_scores,
    training_costs,
)

_CELL_FORMAT = (
    "Each cell: our mean ± standard deviation on the test set (number of runs; 95% bootstrap confidence interval if "
    "there are at least 5 runs); the paper's value, and our difference from it. An asterisk marks a statistically "
    "significant difference (Welch's t-test, p < .05)."
)


def to_markdown(result: Result, level: int = 1) -> str:
    """Format a result as Markdown with the values of the paper next to ours.

    Args:
        result: Result of an experiment.
        level: Level of the heading.
    """
    layout = result_layout(result)
    lines = [f"{'#' * level} {_escape(result_title(result))}", "", *_table_lines(result, layout)]
    lines += _significance_lines(result, layout)
    failures = [f"- {_escape(cells)} failed: {_escape(reason)}" for cells, reason in long_reasons(result)]
    lines += ["", *failures] if failures and layout != "theorems" else []
    notes = [f"- {_escape(note)}" for note in result_notes(result)]
    lines += ["", *notes] if notes else []
    if result.command:
        lines += ["", *_command_lines(result.command)]
    return "\n".join(lines) + "\n"


def _command_lines(commands: str) -> list[str]:
    """Show one command inline, and several commands as a code block."""
    each = commands.split("; ")
    return [f"Command: `{commands}`"] if len(each) == 1 else ["Commands:", "", "```sh", *each, "```"]


def _table_lines(result: Result, layout: str) -> list[str]:
    if layout == "theorems":
        rows = [[cell.row, cell.column, "no" if cell.failed else "yes", _check_text(cell)] for cell in result.cells]
        return _table(["theorem", "case", "holds", "check"], rows)
    if layout == "efficiency":
        return _efficiency_table(result)
    if all(cell.paper is None for cell in result.cells):
        return _table_without_paper(result, layout)
    rows = [[row, *(_cell_text(result.cell(row, column)) for column in result.columns)] for row in result.rows]
    return [*_table(["", *result.columns], rows), "", _CELL_FORMAT]


def _table_without_paper(result: Result, layout: str) -> list[str]:
    """Format means and standard deviations only. The report page also shows the confidence intervals."""
    show_parameters = layout == "interactions"  # in other tables the input size of each data set changes the number
    rows = []
    for row in result.rows:
        cells = [result.cell(row, column) for column in result.columns]
        rows.append([row, *([_parameters(cells)] if show_parameters else []), *(_mean_text(cell) for cell in cells)])
    runs = {len(cell.runs) for cell in result.cells if cell.runs} or {0}
    count = str(min(runs)) if len(runs) == 1 else f"{min(runs)} to {max(runs)}"
    head = ["", *(["parameters"] if show_parameters else []), *result.columns]
    score = "Score" if runs == {1} else "Mean ± standard deviation"
    plural = "" if runs == {1} else "s"
    return [*_table(head, rows), "", f"{score} on the test set over {count} run{plural}."]


def _parameters(cells: Sequence[CellResult | None]) -> str:
    first = next((cell for cell in cells if cell is not None and cell.runs), None)
    return "" if first is None else f"{first.runs[0].parameters:,}"


def _mean_text(cell: CellResult | None) -> str:
    scores = None if cell is None else summarize_scores(cell.tests)
    text = "" if scores is None else f"{scores.mean:.3f}" + (f" ± {scores.std:.3f}" if scores.runs > 1 else "")
    return text if cell is None or not cell.failed else f"{text} failed: {shorten_reason(cell.failed)}".strip()


def _check_text(cell: CellResult) -> str:
    return "; ".join(text for text in (cell.failed, cell.note) if text)


def _cell_text(cell: CellResult | None) -> str:
    if cell is None:
        return ""
    parts = [ours] if (ours := _our_score(cell)) else []
    if cell.failed:
        parts.append(f"failed: {shorten_reason(cell.failed)}")
    return "; ".join([*parts, paper] if (paper := _paper_score(cell)) else parts)


def _our_score(cell: CellResult) -> str:
    scores = summarize_scores(cell.tests)
    if scores is None:
        return ""
    if scores.runs == 1:
        return f"{scores.mean:.4f} (1)"
    interval = "" if scores.interval is None else "; {:.4f} to {:.4f}".format(*scores.interval)
    return f"{scores.mean:.4f} ± {scores.std:.4f} ({scores.runs}{interval})"


def _paper_score(cell: CellResult) -> str:
    if cell.paper is None:
        return ""
    scores, p = summarize_scores(cell.tests), paper_p_value(cell)
    asterisk = "\\*" if p is not None and p < SIGNIFICANCE_LEVEL else ""
    return f"paper {cell.paper:.4f}" + ("" if scores is None else f", {scores.mean - cell.paper:+.4f}{asterisk}")


def _efficiency_table(result: Result) -> list[str]:
    column = "neighbors" if len(result.columns) > 1 else "data"
    head = ["model", column, "parameters", "seconds", "epochs", "epochs/s", "accuracy"]
    rows = [[cell.row, cell.column, *_cost_texts(result, cell), _cell_text(cell)] for cell in result.cells]
    brackets = "Other columns: the paper's value is in brackets; its times were measured on the authors' machine."
    accuracy_format = _CELL_FORMAT.replace("Each cell:", "Accuracy:")
    return [*_table(head, rows), "", f"{accuracy_format} {brackets}"]


def _cost_texts(result: Result, cell: CellResult) -> list[str]:
    costs = training_costs(cell)
    texts = ["", "", "", ""] if costs is None else _format_costs(costs)
    for position, quantity in enumerate(("parameters", "seconds", "epochs", "epochs-per-second")):
        figure = find_paper_figure(f"{result.name}/{quantity}", cell.row, cell.column)
        if figure is not None:
            texts[position] += f" [{figure.value:,.0f}]" if figure.value >= 100 else f" [{figure.value:.3g}]"
    return [text.strip() for text in texts]


def _format_costs(costs: TrainingCosts) -> list[str]:
    rate = "" if costs.rate is None else f"{costs.rate:.1f}"
    return [f"{costs.parameters:,}", f"{costs.seconds:.1f}", f"{costs.epochs:.0f}", rate]


def _significance_lines(result: Result, layout: str) -> list[str]:
    """Describe which rows differ significantly from the reference row, and the average ranks."""
    if layout not in ("table", "efficiency"):
        return []
    lines, base = [], reference_row(result)
    for column in result.columns:
        p_values = reference_p_values(result, column)
        if p_values:
            lines.append(f"- {_escape(column)}: {_comparison(p_values, str(base))}")
    if lines:
        lines.append(
            "- The p-values are those of Wilcoxon's signed-rank test, paired by split and Holm-corrected per column."
        )
    ranks = average_ranks(result) if layout == "table" else None
    if ranks is not None:
        texts = ", ".join(f"{_escape(row)} {rank:.2f}" for row, rank in ranks.ranks.items())
        lines.append(
            f"- Average ranks: {texts}. Differences below {ranks.critical_difference:.2f} are not statistically "
            f"significant (Nemenyi test, 5% level)."
        )
    return ["", *lines] if lines else []


def _comparison(p_values: dict[str, float], base: str) -> str:
    def names(significant: bool) -> str:
        rows = [(row, p) for row, p in p_values.items() if (p < SIGNIFICANCE_LEVEL) == significant]
        return ", ".join(f"{_escape(row)} ({format_p_value(p)})" for row, p in rows)

    different, similar = names(True), names(False)
    parts = [f"statistically significant difference from {base} for {different}"] if different else []
    parts += [f"no significant difference from {base} for {similar}"] if similar else []
    return "; ".join(parts) + "."


def format_p_value(p: float) -> str:
    """Format a p-value.

    Example:
        >>> format_p_value(0.0231), format_p_value(0.00001), format_p_value(1.0)
        ('p = .023', 'p < .001', 'p = 1.000')
    """
    return "p < .001" if p < 0.001 else f"p = {p:.3f}".replace(" 0.", " .")


def _escape(text: str) -> str:
    """Join the lines of a text and escape HTML."""
    return " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(_escape(cell).replace("|", "\\|") for cell in cells) + " |"

    return [line(head), line(["---"] * len(head)), *map(line, rows)]
