"""LaTeX output of a result as a booktabs table."""

from __future__ import annotations

from collections.abc import Sequence

from tgnn.experiments.captions import result_layout, result_title
from tgnn.experiments.results import CellResult, Result
from tgnn.experiments.statistics import (
    SIGNIFICANCE_LEVEL,
    best_rows,
    paper_p_value,
    summarize_scores,
    training_costs,
)

_ESCAPES = {
    **{ord(sign): f"\\{sign}" for sign in "&%$#_{}"},
    **{
        ord(sign): f"\\text{name}{{}}"
        for sign, name in (
            ("\\", "backslash"),
            ("~", "asciitilde"),
            ("^", "asciicircum"),
            ("<", "less"),
            (">", "greater"),
            ("|", "bar"),
        )
    },
}


def to_latex(result: Result) -> str:
    """Format a result as a LaTeX table with the values of the paper next to ours.

    The best mean of a column is bold. A star marks a statistically significant difference from the paper.
    """
    layout = result_layout(result)
    if layout == "theorems":
        return _tabular(result, "lll", [["theorem", "case", "holds"]], _theorems(result))
    if layout == "efficiency":
        head = [["", "", "parameters", "seconds", "epochs", "accuracy", "paper"]]
        return _tabular(result, "llrrrrr", head, _efficiency(result))
    papers = {column: any(c.paper is not None for c in result.cells if c.column == column) for column in result.columns}
    span = [2 if papers[column] else 1 for column in result.columns]
    head = [["", *(_column_header(column, by) for column, by in zip(result.columns, span))]]
    if any(papers.values()):
        head.append(["", *(word for by in span for word in ("ours", "paper")[:by])])
    return _tabular(result, "l" + "r" * sum(span), head, _scores(result, papers))


def escape_latex(text: str) -> str:
    r"""Escape the special characters of LaTeX.

    Example:
        >>> escape_latex("50 % of a_b")
        '50 \\% of a\\_b'
    """
    return " ".join(text.split()).translate(_ESCAPES)


def _tabular(result: Result, columns: str, head: Sequence[Sequence[str]], rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str]) -> str:
        return " & ".join(cells) + " \\\\"

    title = " ".join(result_title(result).split())
    return "\n".join(
        [
            f"% {title} (requires \\usepackage{{booktabs}})",
            f"\\begin{{tabular}}{{{columns}}}",
            "\\toprule",
            *map(line, head),
            "\\midrule",
            *map(line, rows),
            "\\bottomrule",
            "\\end{tabular}",
            "",
        ]
    )


def _column_header(column: str, span: int) -> str:
    return escape_latex(column) if span == 1 else f"\\multicolumn{{{span}}}{{c}}{{{escape_latex(column)}}}"


def _theorems(result: Result) -> list[list[str]]:
    return [
        [escape_latex(cell.row), escape_latex(cell.column), "no" if cell.failed else "yes"] for cell in result.cells
    ]


def _efficiency(result: Result) -> list[list[str]]:
    best = {column: best_rows(result, column) for column in result.columns}
    rows = []
    for cell in result.cells:
        costs = training_costs(cell)
        sizes = ["", "", ""]
        if costs is not None:
            sizes = [f"{costs.parameters:,}", f"{costs.seconds:.1f}", f"{costs.epochs:.0f}"]
        ours = _ours(cell, cell.row in best[cell.column])
        rows.append([escape_latex(cell.row), escape_latex(cell.column), *sizes, ours, _papers(cell)])
    return rows


def _scores(result: Result, papers: dict[str, bool]) -> list[list[str]]:
    best = {column: best_rows(result, column) for column in result.columns}
    rows = []
    for row in result.rows:
        line = [escape_latex(row)]
        for column in result.columns:
            cell = result.cell(row, column)
            line.append("" if cell is None else _ours(cell, row in best[column]))
            line += ["" if cell is None else _papers(cell)] if papers[column] else []
        rows.append(line)
    return rows


def _ours(cell: CellResult, best: bool) -> str:
    scores = summarize_scores(cell.tests)
    if scores is None:
        return "failed" if cell.failed else ""
    score = f"{scores.mean:.4f}" + (f" $\\pm$ {scores.std:.4f}" if scores.runs > 1 else "")
    p = paper_p_value(cell)
    return (f"\\textbf{{{score}}}" if best else score) + ("$^{*}$" if p is not None and p < SIGNIFICANCE_LEVEL else "")


def _papers(cell: CellResult) -> str:
    if cell.paper is None:
        return ""
    return f"{cell.paper:.4f}" + (f" $\\pm$ {cell.paper_spread:.4f}" if cell.paper_spread else "")
