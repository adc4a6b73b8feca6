"""A result as a LaTeX table with booktabs."""

from __future__ import annotations

from collections.abc import Sequence

from tgnn.experiments.results import CellResult, Result
from tgnn.experiments.statistics import SIGNIFICANT, best_rows, costs, differs_from_paper, summary

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


def latex(result: Result) -> str:
    """Ours beside the paper's; the best mean of a column is bold, and a star marks more than chance."""
    if result.kind == "theorems":
        return _tabular(result, "lll", [["theorem", "case", "holds"]], _theorems(result))
    if result.kind == "efficiency":
        head = [["", "", "parameters", "seconds", "epochs", "accuracy", "paper"]]
        return _tabular(result, "llrrrrr", head, _efficiency(result))
    papers = {column: any(c.paper is not None for c in result.cells if c.column == column) for column in result.columns}
    wide = [2 if papers[column] else 1 for column in result.columns]
    head = [["", *(_over(column, by) for column, by in zip(result.columns, wide))]]
    if any(papers.values()):
        head.append(["", *(word for by in wide for word in ("ours", "paper")[:by])])
    return _tabular(result, "l" + "r" * sum(wide), head, _scores(result, papers))


def tex(text: str) -> str:
    r"""Words that LaTeX sets as they are.

    Example:
        >>> tex("50 % of a_b")
        '50 \\% of a\\_b'
    """
    return " ".join(text.split()).translate(_ESCAPES)


def _tabular(result: Result, columns: str, head: Sequence[Sequence[str]], rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str]) -> str:
        return " & ".join(cells) + " \\\\"

    title = " ".join(result.title.split())
    return "\n".join(
        [
            f"% {title}; needs \\usepackage{{booktabs}}",
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


def _over(column: str, wide: int) -> str:
    return tex(column) if wide == 1 else f"\\multicolumn{{{wide}}}{{c}}{{{tex(column)}}}"


def _theorems(result: Result) -> list[list[str]]:
    return [[tex(cell.row), tex(cell.column), "no" if cell.failed else "yes"] for cell in result.cells]


def _efficiency(result: Result) -> list[list[str]]:
    best = {column: best_rows(result, column) for column in result.columns}
    rows = []
    for cell in result.cells:
        found = costs(cell)
        sizes = ["", "", ""]
        if found is not None:
            sizes = [f"{found.parameters:,}", f"{found.seconds:.1f}", f"{found.epochs:.0f}"]
        ours = _ours(cell, cell.row in best[cell.column])
        rows.append([tex(cell.row), tex(cell.column), *sizes, ours, _papers(cell)])
    return rows


def _scores(result: Result, papers: dict[str, bool]) -> list[list[str]]:
    best = {column: best_rows(result, column) for column in result.columns}
    rows = []
    for row in result.rows:
        line = [tex(row)]
        for column in result.columns:
            cell = result.cell(row, column)
            line.append("" if cell is None else _ours(cell, row in best[column]))
            line += ["" if cell is None else _papers(cell)] if papers[column] else []
        rows.append(line)
    return rows


def _ours(cell: CellResult, best: bool) -> str:
    found = summary(cell.tests)
    if found is None:
        return "failed" if cell.failed else ""
    words = f"{found.mean:.4f}" + (f" $\\pm$ {found.std:.4f}" if found.runs > 1 else "")
    p = differs_from_paper(cell)
    return (f"\\textbf{{{words}}}" if best else words) + ("$^{*}$" if p is not None and p < SIGNIFICANT else "")


def _papers(cell: CellResult) -> str:
    if cell.paper is None:
        return ""
    return f"{cell.paper:.4f}" + (f" $\\pm$ {cell.paper_spread:.4f}" if cell.paper_spread else "")
