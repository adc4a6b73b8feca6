"""A result as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from tgnn.experiments.failure_messages import in_full, in_short
from tgnn.experiments.paper_figures import find_paper_figure
from tgnn.experiments.results import CellResult, Result
from tgnn.experiments.statistics import (
    SIGNIFICANT,
    Costs,
    against,
    costs,
    differs_from_paper,
    ranking,
    reference,
    summary,
)

_KEY = "Ours: mean ± standard deviation (runs; 95 % bootstrap interval from five runs on)."
_PAPERS = "The paper's: its figure, and ours less it; * is more than chance (Welch's t test, p < 0.05)."


def markdown(result: Result, level: int = 1) -> str:
    """A table with the paper's figure beside ours, the tests, and the notes."""
    lines = [f"{'#' * level} {_text(result.title)}", "", *_body(result), *_tests(result)]
    failures = [f"- {_text(places)} failed: {_text(reason)}" for places, reason in in_full(result)]
    lines += ["", *failures] if failures and result.kind != "theorems" else []
    notes = [f"- {_text(note)}" for note in result.all_notes]
    lines += ["", *notes] if notes else []
    if result.command:
        lines += ["", f"Made with `{result.command}`."]
    return "\n".join(lines) + "\n"


def _body(result: Result) -> list[str]:
    if result.kind == "theorems":
        rows = [[cell.row, cell.column, "no" if cell.failed else "yes", _said(cell)] for cell in result.cells]
        return _table(["theorem", "case", "holds", "what was checked"], rows)
    if result.kind == "efficiency":
        return _efficiency(result)
    if all(cell.paper is None for cell in result.cells):
        return _brief(result)
    rows = [[row, *(_words(result.cell(row, column)) for column in result.columns)] for row in result.rows]
    return [*_table(["", *result.columns], rows), "", f"{_KEY} {_PAPERS}"]


def _brief(result: Result) -> list[str]:
    """Many points and nothing of the paper's beside them: their intervals are in the page."""
    sized = result.kind == "interactions"  # elsewhere columns are data sets, and inputs have their own sizes
    rows = []
    for row in result.rows:
        cells = [result.cell(row, column) for column in result.columns]
        rows.append([row, *([_parameters(cells)] if sized else []), *(_mean(cell) for cell in cells)])
    runs = {len(cell.runs) for cell in result.cells if cell.runs} or {0}
    words = str(min(runs)) if len(runs) == 1 else f"{min(runs)} to {max(runs)}"
    head = ["", *(["parameters"] if sized else []), *result.columns]
    return [*_table(head, rows), "", f"Mean ± standard deviation; runs: {words}."]


def _parameters(cells: Sequence[CellResult | None]) -> str:
    found = next((cell for cell in cells if cell is not None and cell.runs), None)
    return "" if found is None else f"{found.runs[0].parameters:,}"


def _mean(cell: CellResult | None) -> str:
    found = None if cell is None else summary(cell.tests)
    words = "" if found is None else f"{found.mean:.3f}" + (f" ± {found.std:.3f}" if found.runs > 1 else "")
    return words if cell is None or not cell.failed else f"{words} failed: {in_short(cell.failed)}".strip()


def _said(cell: CellResult) -> str:
    return "; ".join(words for words in (cell.failed, cell.note) if words)


def _words(cell: CellResult | None) -> str:
    if cell is None:
        return ""
    parts = [ours] if (ours := _ours(cell)) else []
    if cell.failed:
        parts.append(f"failed: {in_short(cell.failed)}")
    return "; ".join([*parts, papers] if (papers := _papers(cell)) else parts)


def _ours(cell: CellResult) -> str:
    found = summary(cell.tests)
    if found is None:
        return ""
    if found.runs == 1:
        return f"{found.mean:.4f} (1)"
    words = "" if found.interval is None else "; {:.4f} to {:.4f}".format(*found.interval)
    return f"{found.mean:.4f} ± {found.std:.4f} ({found.runs}{words})"


def _papers(cell: CellResult) -> str:
    if cell.paper is None:
        return ""
    found, p = summary(cell.tests), differs_from_paper(cell)
    star = "\\*" if p is not None and p < SIGNIFICANT else ""
    return f"paper {cell.paper:.4f}" + ("" if found is None else f", {found.mean - cell.paper:+.4f}{star}")


def _efficiency(result: Result) -> list[str]:
    head = ["", "", "parameters", "seconds", "epochs", "epochs/s", "accuracy"]
    rows = [[cell.row, cell.column, *_costs(result, cell), _words(cell)] for cell in result.cells]
    words = "In brackets: the paper's, of its own machine."
    return [*_table(head, rows), "", f"{_KEY} {_PAPERS} {words}"]


def _costs(result: Result, cell: CellResult) -> list[str]:
    found = costs(cell)
    shown = ["", "", "", ""] if found is None else _shown(found)
    for place, what in enumerate(("parameters", "seconds", "epochs", "epochs-per-second")):
        figure = find_paper_figure(f"{result.name}/{what}", cell.row, cell.column)
        if figure is not None:
            shown[place] += f" [{figure.value:,.0f}]" if figure.value >= 100 else f" [{figure.value:.3g}]"
    return [words.strip() for words in shown]


def _shown(found: Costs) -> list[str]:
    rate = "" if found.rate is None else f"{found.rate:.1f}"
    return [f"{found.parameters:,}", f"{found.seconds:.1f}", f"{found.epochs:.0f}", rate]


def _tests(result: Result) -> list[str]:
    """In words: who differs from the reference on the same splits, and the average ranks."""
    if result.kind not in ("table", "efficiency"):
        return []
    lines, base = [], reference(result)
    for column in result.columns:
        words = ", ".join(f"{_text(row)} {p:.3f}" for row, p in against(result, column).items())
        if words:
            lines.append(f"- {_text(column)}: p of a difference from {base} (same splits; Wilcoxon, Holm): {words}.")
    ranks = ranking(result) if result.kind == "table" else None
    if ranks is not None:
        words = ", ".join(f"{_text(row)} {rank:.2f}" for row, rank in ranks.ranks.items())
        apart = f"those less than {ranks.critical:.2f} apart are not told apart"
        lines.append(f"- Average ranks: {words}; {apart}.")
    return ["", *lines] if lines else []


def _text(words: str) -> str:
    """Names and reasons are text, whatever is in them."""
    return " ".join(words.split()).replace("&", "&amp;").replace("<", "&lt;")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(_text(cell).replace("|", "\\|") for cell in cells) + " |"

    return [line(head), line(["---"] * len(head)), *map(line, rows)]
