"""A result as text: Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from tgnn.reproduce.result import CellResult, Result
from tgnn.reproduce.statistics import Summary, against, differs_from_paper, ranking, summary
from tgnn.training.run import write_text
from tgnn.training.task import HIGHER_IS_BETTER


def write_texts(result: Result, folder: Path) -> list[Path]:
    """Writes ``<name>.md``, ``.csv`` and ``.tex``; gives their paths."""
    paths = []
    for suffix, text in ((".md", markdown(result)), (".csv", as_csv(result)), (".tex", latex(result))):
        path = folder / f"{result.name}{suffix}"
        write_text(path, text)
        paths.append(path)
    return paths


def markdown(result: Result, level: int = 1) -> str:
    """A table with the paper's figure beside ours, the tests, and the notes."""
    lines = [f"{'#' * level} {result.title}", ""]
    if result.kind == "theorems":
        lines += _table(
            ["theorem", "case", "holds", "what was checked"],
            [[cell.row, cell.column, "no" if cell.failed else "yes", cell.note] for cell in result.cells],
        )
    elif result.kind == "efficiency":
        lines += _efficiency(result)
    else:
        lines += _table(
            ["", *result.columns],
            [[row, *(_words(result.cell(row, column)) for column in result.columns)] for row in result.rows],
        )
        lines += [
            "",
            "Ours: mean ± standard deviation (runs). In brackets: the paper's; * differs from it (t test, 5 %).",
        ]
    lines += ["", *_tests(result), *(f"- {note}" for note in _notes(result))]
    if result.command:
        lines += ["", f"Made with `{result.command}`."]
    return "\n".join(lines).rstrip() + "\n"


def _efficiency(result: Result) -> list[str]:
    rows = []
    for cell in result.cells:
        found = summary(cell.tests)
        speed = [run.epochs / run.seconds for run in cell.runs if run.seconds]
        count, rate = "", ""
        if cell.runs:
            count = f"{cell.runs[0].parameters:,}"
        if speed:
            rate = f"{sum(speed) / len(speed):.1f}"
        seconds, epochs = ([getattr(run, name) for run in cell.runs] for name in ("seconds", "epochs"))
        rows.append(
            [
                cell.row,
                cell.column,
                count,
                f"{sum(seconds) / len(seconds):.1f}" if seconds else "",
                f"{sum(epochs) / len(epochs):.0f}" if epochs else "",
                rate,
                cell.failed or ("" if found is None else _ours(found)),
                "" if cell.paper is None else _figure(cell.paper, cell.paper_spread),
            ]
        )
    return _table(["", "", "parameters", "seconds", "epochs", "epochs/s", "accuracy", "paper's"], rows)


def _words(cell: CellResult | None) -> str:
    if cell is None:
        return ""
    found = summary(cell.tests)
    ours = "" if found is None else _ours(found) + f" ({found.runs})"
    if cell.failed:
        ours = f"{ours} failed: {cell.failed}".strip()
    p = differs_from_paper(cell)
    paper = "" if cell.paper is None else f" [{_figure(cell.paper, None)}{'*' if p is not None and p < 0.05 else ''}]"
    return f"{ours}{paper}"


def _ours(found: Summary) -> str:
    return _figure(found.mean, found.std if found.runs > 1 else None)


def _figure(value: float, spread: float | None) -> str:
    return f"{value:.4f}" + ("" if not spread else f" ± {spread:.4f}")


def _tests(result: Result) -> list[str]:
    """In words: who differs from tgnn on the same splits, and the average ranks."""
    if result.kind != "table":
        return []
    lines = []
    for column in result.columns:
        found = against(result, column)
        if found:
            words = ", ".join(f"{row} {p:.3f}" for row, p in found.items())
            lines.append(f"- {column}: p of a difference from tgnn (Wilcoxon over the same splits, Holm): {words}.")
    ranks = ranking(result)
    if ranks is not None:
        words = ", ".join(f"{row} {rank:.2f}" for row, rank in ranks.ranks.items())
        apart = "" if ranks.critical is None else f"; those less than {ranks.critical:.2f} apart are not told apart"
        lines.append(f"- Average ranks: {words}{apart}.")
    return lines


def _notes(result: Result) -> list[str]:
    cells = [f"{cell.column}: {cell.note}" for cell in result.cells if cell.note and result.kind != "theorems"]
    return [*result.notes, *dict.fromkeys(cells)]


def as_csv(result: Result) -> str:
    """One line for every cell."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    head = ["row", "column", "metric", "mean", "std", "low", "high", "runs", "paper", "paper_spread", "difference"]
    writer.writerow([*head, "p", "parameters", "seconds", "epochs", "failed", "note"])
    for cell in result.cells:
        found = summary(cell.tests)
        ours = [""] * 5 if found is None else [found.mean, found.std, found.low, found.high, found.runs]
        difference = "" if found is None or cell.paper is None else found.mean - cell.paper
        runs = cell.runs
        sizes = (
            [runs[0].parameters, _mean([r.seconds for r in runs]), _mean([r.epochs for r in runs])]
            if runs
            else [""] * 3
        )
        paper = ["" if value is None else value for value in (cell.paper, cell.paper_spread)]
        p = differs_from_paper(cell)
        rest = [difference, "" if p is None else p, *sizes, cell.failed, cell.note]
        writer.writerow([cell.row, cell.column, cell.metric, *ours, *paper, *rest])
    return file.getvalue()


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def latex(result: Result) -> str:
    """A table with booktabs; the best mean of a column is bold."""
    columns = result.columns
    lines = [
        f"% {result.title}; needs \\usepackage{{booktabs}}",
        f"\\begin{{tabular}}{{l{'r' * len(columns)}}}",
        "\\toprule",
        " & ".join(["", *map(_tex, columns)]) + " \\\\",
        "\\midrule",
    ]
    best = {column: _best(result, column) for column in columns}
    for row in result.rows:
        cells = []
        for column in columns:
            cell = result.cell(row, column)
            found = None if cell is None else summary(cell.tests)
            words = "" if found is None else f"{found.mean:.4f} $\\pm$ {found.std:.4f}"
            if cell is not None and result.kind == "theorems":
                words = "no" if cell.failed else "yes"
            cells.append(f"\\textbf{{{words}}}" if words and best[column] == row else words)
        lines.append(" & ".join([_tex(row), *cells]) + " \\\\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"]) + "\n"


def _best(result: Result, column: str) -> str | None:
    means = {}
    for row in result.rows:
        cell = result.cell(row, column)
        found = None if cell is None else summary(cell.tests)
        if cell is not None and found is not None:
            means[row] = found.mean * (1 if HIGHER_IS_BETTER.get(cell.metric, True) else -1)
    return max(means, key=lambda row: means[row]) if len(means) > 1 else None


def _tex(text: str) -> str:
    for character in "\\&%$#_{}":
        text = text.replace(character, "\\textbackslash " if character == "\\" else f"\\{character}")
    return text


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

    return [line(head), line(["---"] * len(head)), *map(line, rows)]
