"""Output of a result as Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tgnn.experiments.captions import long_reasons, result_layout, result_notes, result_title, shorten_reason
from tgnn.experiments.decoding import METRIC, PUBLISHED, by_protocol, error_rates_text
from tgnn.experiments.results import CellResult, Result, find_paper_figure
from tgnn.experiments.statistics import (
    PAIRED_TEST,
    SIGNIFICANCE_LEVEL,
    average_ranks,
    best_rows,
    paper_p_value,
    reference_p_values,
    reference_row,
    summarize_scores,
    training_costs,
)
from tgnn.utils.io import without_nan, write_text

_CELL_FORMAT = (
    "Each cell: our mean ± standard deviation on the test set (number of runs; 95% bootstrap confidence interval if "
    "there are at least 5 runs), then the paper's value and our difference from it. An asterisk marks a statistically "
    "significant difference (Welch's t-test, p < .05)."
)
_LATEX_NAMES = {"\\": "backslash", "~": "asciitilde", "^": "asciicircum", "<": "less", ">": "greater", "|": "bar"}
_LATEX_ESCAPES = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"} | {sign: f"\\text{name}{{}}" for sign, name in _LATEX_NAMES.items()}
)
_CSV_COLUMNS = (
    *("row", "column", "metric", "mean", "std", "low", "high", "runs", "paper", "paper_spread", "difference"),
    *("p", "parameters", "seconds", "epochs", "failed", "note"),
)


def write_tables(result: Result, folder: Path) -> list[Path]:
    """Write ``<name>.md``, ``<name>.csv`` and ``<name>.tex`` to a folder and return their paths."""
    texts = {".md": to_markdown(result), ".csv": to_csv(result), ".tex": to_latex(result)}
    paths = {folder / f"{result.name}{suffix}": text for suffix, text in texts.items()}
    for path, text in paths.items():
        write_text(path, text)
    return list(paths)


# ---- data for other programs -----------------------------------------------------------------------------------


def to_csv(result: Result) -> str:
    """Format a result as CSV, one line per cell. Undefined values, such as the deviation of one run, are empty."""
    file = io.StringIO()
    writer = csv.DictWriter(file, _CSV_COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for cell in result.cells:
        statistics, costs = _statistics(cell), training_costs(cell)
        low, high = statistics["interval"] or (None, None)
        difference = None if None in (statistics["mean"], cell.paper) else statistics["mean"] - cell.paper
        runs = sum(not math.isnan(test) for test in cell.tests)
        line = {"low": low, "high": high, "runs": runs, "difference": difference}
        writer.writerow(asdict(cell) | statistics | line | ({} if costs is None else asdict(costs)))
    return file.getvalue()


def to_json_object(result: Result) -> dict[str, Any]:
    """Convert a result to a JSON object.

    Each cell gets its mean, standard deviation, confidence interval and two p-values: ``p`` against the value of the
    paper and ``p_rows`` against the reference row.
    """
    captions = {"title": result_title(result), "layout": result_layout(result), "notes": result_notes(result)}
    p_values = {column: reference_p_values(result, column) for column in result.columns}
    cells = [
        asdict(cell) | _statistics(cell) | {"p_rows": p_values[cell.column].get(cell.row)} for cell in result.cells
    ]
    json_object: dict[str, Any] = without_nan(asdict(result) | captions | {"cells": cells})
    return json_object


def _statistics(cell: CellResult) -> dict[str, Any]:
    scores = summarize_scores(cell.tests)
    if scores is None:
        return {"mean": None, "std": None, "interval": None, "p": None}
    std = scores.std if scores.runs > 1 else None
    return {"mean": scores.mean, "std": std, "interval": scores.interval, "p": paper_p_value(cell)}


# ---- Markdown --------------------------------------------------------------------------------------------------


def to_markdown(result: Result, level: int = 1) -> str:
    """Format a result as Markdown, under a heading of some level, with the values of the paper next to ours."""
    layout = result_layout(result)
    lines = [f"{'#' * level} {_escape(result_title(result))}", "", *_markdown_table(result, layout)]
    lines += _significance_lines(result, layout)
    failures = [f"- {_escape(cells)} failed: {_escape(reason)}" for cells, reason in long_reasons(result)]
    lines += ["", *failures] if failures and layout != "theorems" else []
    notes = [f"- {_escape(note)}" for note in result_notes(result)]
    lines += ["", *notes] if notes else []
    commands = result.command.split("; ")
    if len(commands) > 1:
        lines += ["", "Commands:", "", "```sh", *commands, "```"]
    elif result.command:
        lines += ["", f"Command: `{result.command}`"]
    return "\n".join(lines) + "\n"


def _markdown_table(result: Result, layout: str) -> list[str]:
    """Format the table and the sentence below it that explains its cells."""
    cells = result.cells
    if layout == "theorems":
        checks = [
            [cell.row, cell.column, _holds(cell), "; ".join(filter(None, (cell.failed, cell.note)))] for cell in cells
        ]
        return _grid(["theorem", "case", "holds", "check"], checks)
    if layout == "decoding":
        return _decoding_tables(result)
    if layout == "efficiency":
        column = "neighbors" if len(result.columns) > 1 else "data"
        head = ["model", column, "parameters", "seconds", "epochs", "epochs/s", "accuracy"]
        rows = [[cell.row, cell.column, *_costs_and_paper(result, cell), _score_and_paper(cell)] for cell in cells]
        brackets = "Other columns: the paper's value is in brackets. Its times were measured on the authors' machine."
        return [*_grid(head, rows), "", f"{_CELL_FORMAT.replace('Each cell:', 'Accuracy:')} {brackets}"]
    if any(cell.paper is not None for cell in cells):
        rows = [
            [row, *(_score_and_paper(result.cell(row, column)) for column in result.columns)] for row in result.rows
        ]
        return [*_grid(["", *result.columns], rows), "", _CELL_FORMAT]
    return _table_without_paper(result, show_parameters=layout == "interactions")


def _decoding_tables(result: Result) -> list[str]:
    """Format one table per code or protocol, with a column for each signal-to-noise ratio."""
    lines = []
    for protocol, columns in by_protocol(result.columns).items():
        rows = []
        for row in result.rows:
            cells = [result.cell(row, column) for column in columns.values()]
            runs = [run for cell in cells if cell is not None for run in cell.runs]
            sizes = ["", "", ""]
            if runs:
                sizes = [f"{runs[0].parameters:,}", f"{runs[0].epochs:,}", str(len({run.seed for run in runs}))]
            rows += [[row, *sizes, *map(error_rates_text, cells)]] if any(cells) else []
        for name, (weights, rates) in PUBLISHED.get(protocol, {}).items():
            rates_text = [f"{rates[ebn0]:.2e}" if ebn0 in rates else "" for ebn0 in columns]
            rows.append([name, f"{weights:,}", "", "", *rates_text])
        head = ["decoder", "weights", "steps", "runs", *(f"{ebn0} dB" for ebn0 in columns)]
        lines += [f"**{protocol}**", "", *_grid(head, rows), ""]
    return [*lines, "Bit error rate (mean ± standard deviation over runs) / frame error rate."]


def _table_without_paper(result: Result, show_parameters: bool) -> list[str]:
    """Format means and standard deviations only. The report page also shows the confidence intervals.

    The number of parameters is shown for the interactions only. In other experiments it depends on the data set.
    """
    rows = []
    for row in result.rows:
        sizes = [cell.runs[0].parameters for cell in result.cells if cell.row == row and cell.runs]
        parameters = [f"{sizes[0]:,}" if sizes else ""] if show_parameters else []
        rows.append([row, *parameters, *(_mean_text(result.cell(row, column)) for column in result.columns)])
    runs = {len(cell.runs) for cell in result.cells if cell.runs} or {0}
    count = str(min(runs)) if len(runs) == 1 else f"{min(runs)} to {max(runs)}"
    metrics = {cell.column: cell.metric for cell in result.cells if cell.metric}
    is_mixed = len(set(metrics.values())) > 1
    columns = [f"{column} ({metrics.get(column, '')})" if is_mixed else column for column in result.columns]
    head = ["", *(["parameters"] if show_parameters else []), *columns]
    score, plural = ("Score", "") if runs == {1} else ("Mean ± standard deviation", "s")
    return [*_grid(head, rows), "", f"{score} on the test set over {count} run{plural}."]


def _mean_text(cell: CellResult | None) -> str:
    if cell is None:
        return ""
    scores = summarize_scores(cell.tests)
    text = "" if scores is None else f"{scores.mean:.3f}" + (f" ± {scores.std:.3f}" if scores.runs > 1 else "")
    return f"{text} failed: {shorten_reason(cell.failed)}".strip() if cell.failed else text


def _score_and_paper(cell: CellResult | None) -> str:
    """Format our score, the failure, and the value of the paper with our difference from it."""
    if cell is None:
        return ""
    parts, scores = [], summarize_scores(cell.tests)
    if scores is not None:
        interval = "" if scores.interval is None else "; {:.4f} to {:.4f}".format(*scores.interval)
        std = f" ± {scores.std:.4f}" if scores.runs > 1 else ""
        parts.append(f"{scores.mean:.4f}{std} ({scores.runs}{interval})")
    if cell.failed:
        parts.append(f"failed: {shorten_reason(cell.failed)}")
    if cell.paper is not None:
        asterisk = "\\*" if _differs_from_paper(cell) else ""
        difference = "" if scores is None else f", {scores.mean - cell.paper:+.4f}{asterisk}"
        parts.append(f"paper {cell.paper:.4f}{difference}")
    return "; ".join(parts)


def _differs_from_paper(cell: CellResult) -> bool:
    p = paper_p_value(cell)
    return p is not None and p < SIGNIFICANCE_LEVEL


def _holds(cell: CellResult) -> str:
    return "no" if cell.failed else "yes"


def _costs(cell: CellResult) -> list[str]:
    """Format parameters, seconds, epochs, and epochs per second."""
    costs = training_costs(cell)
    if costs is None:
        return ["", "", "", ""]
    rate = "" if costs.rate is None else f"{costs.rate:.1f}"
    return [f"{costs.parameters:,}", f"{costs.seconds:.1f}", f"{costs.epochs:.0f}", rate]


def _costs_and_paper(result: Result, cell: CellResult) -> list[str]:
    texts = []
    for text, quantity in zip(_costs(cell), ("parameters", "seconds", "epochs", "epochs-per-second")):
        figure = find_paper_figure(f"{result.name}/{quantity}", cell.row, cell.column)
        if figure is not None:
            text += f" [{figure.value:,.0f}]" if figure.value >= 100 else f" [{figure.value:.3g}]"
        texts.append(text.strip())
    return texts


def _significance_lines(result: Result, layout: str) -> list[str]:
    """Describe which rows differ significantly from the reference row, and the average ranks."""
    if layout not in ("table", "efficiency"):
        return []
    base = str(reference_row(result))
    p_values = {column: reference_p_values(result, column) for column in result.columns}
    lines = [f"- {_escape(column)}: {_comparison(values, base)}." for column, values in p_values.items() if values]
    if lines:
        lines.append(f"- The p-values are those of {PAIRED_TEST}, paired by split and Holm-corrected per column.")
    ranks = average_ranks(result) if layout == "table" else None
    if ranks is not None:
        texts = ", ".join(f"{_escape(row)} {rank:.2f}" for row, rank in ranks.ranks.items())
        columns = ", ".join(f"`{_escape(column)}`" for column in ranks.columns)
        lines.append(
            f"- Average ranks over {columns} (1 is best): {texts}. Differences below "
            f"{ranks.critical_difference:.2f} are not statistically significant (Nemenyi test, 5% level)."
        )
    return ["", *lines] if lines else []


def _comparison(p_values: Mapping[str, float], base: str) -> str:
    parts = []
    for is_significant, text in ((True, "statistically significant difference"), (False, "no significant difference")):
        names = [
            f"{_escape(row)} ({format_p_value(p)})"
            for row, p in p_values.items()
            if (p < SIGNIFICANCE_LEVEL) == is_significant
        ]
        parts += [f"{text} from {base} for {', '.join(names)}"] if names else []
    return "; ".join(parts)


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


def _grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(_escape(cell).replace("|", "\\|") for cell in cells) + " |"

    return [line(head), line(["---"] * len(head)), *map(line, rows)]


# ---- LaTeX -----------------------------------------------------------------------------------------------------


def to_latex(result: Result) -> str:
    """Format a result as a LaTeX table (booktabs) with the values of the paper next to ours.

    The best mean of a column is bold. A star marks a statistically significant difference from the paper.
    """
    layout, best = result_layout(result), {column: best_rows(result, column) for column in result.columns}
    if layout == "theorems":
        checks = [[escape_latex(cell.row), escape_latex(cell.column), _holds(cell)] for cell in result.cells]
        return _tabular(result, "lll", [["theorem", "case", "holds"]], checks)
    if layout == "efficiency":
        head = [["", "", "parameters", "seconds", "epochs", "accuracy", "paper"]]
        rows = [
            [escape_latex(cell.row), escape_latex(cell.column), *_costs(cell)[:3], *_latex_scores(cell, best)]
            for cell in result.cells
        ]
        return _tabular(result, "llrrrrr", head, rows)
    spans = {cell.column: 2 for cell in result.cells if cell.paper is not None}  # columns with values of the paper
    widths = {column: spans.get(column, 1) for column in result.columns}
    head = [["", *(_column_header(column, width) for column, width in widths.items())]]
    if spans:
        head.append(["", *(word for width in widths.values() for word in ("ours", "paper")[:width])])
    rows = [
        [
            escape_latex(row),
            *(t for column, width in widths.items() for t in _latex_scores(result.cell(row, column), best)[:width]),
        ]
        for row in result.rows
    ]
    return _tabular(result, "l" + "r" * sum(widths.values()), head, rows)


def escape_latex(text: str) -> str:
    r"""Escape the special characters of LaTeX.

    Example:
        >>> escape_latex("50 % of a_b")
        '50 \\% of a\\_b'
    """
    return " ".join(text.split()).translate(_LATEX_ESCAPES)


def _tabular(result: Result, columns: str, head: Sequence[Sequence[str]], rows: Sequence[Sequence[str]]) -> str:
    head_lines, row_lines = ([" & ".join(cells) + " \\\\" for cells in lines] for lines in (head, rows))
    title = " ".join(result_title(result).split())
    return "\n".join(
        [
            f"% {title} (requires \\usepackage{{booktabs}})",
            f"\\begin{{tabular}}{{{columns}}}",
            *("\\toprule", *head_lines, "\\midrule", *row_lines, "\\bottomrule"),
            "\\end{tabular}\n",
        ]
    )


def _column_header(column: str, width: int) -> str:
    return escape_latex(column) if width == 1 else f"\\multicolumn{{{width}}}{{c}}{{{escape_latex(column)}}}"


def _latex_scores(cell: CellResult | None, best: Mapping[str, set[str]]) -> tuple[str, str]:
    """Format our score and the value of the paper."""
    if cell is None:
        return "", ""
    paper = ""
    if cell.paper is not None:
        paper = f"{cell.paper:.4f}" + (f" $\\pm$ {cell.paper_spread:.4f}" if cell.paper_spread else "")
    scores = summarize_scores(cell.tests)
    if scores is None:
        return "failed" if cell.failed else "", paper
    digits = ".2e" if cell.metric == METRIC else ".4f"
    ours = f"{scores.mean:{digits}}" + (f" $\\pm$ {scores.std:{digits}}" if scores.runs > 1 else "")
    ours = f"\\textbf{{{ours}}}" if cell.row in best[cell.column] else ours
    return ours + ("$^{*}$" if _differs_from_paper(cell) else ""), paper
