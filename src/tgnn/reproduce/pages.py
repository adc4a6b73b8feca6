"""``docs/results.md`` and the table of the README, out of the results: ``python -m tgnn.reproduce.pages``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from tgnn.reproduce.as_markdown import markdown
from tgnn.reproduce.experiments import EXPERIMENTS
from tgnn.reproduce.result import Result, read_result
from tgnn.reproduce.statistics import summary
from tgnn.training.run import write_text

BEGIN, END = "<!-- results: made by `make results`, not by hand -->", "<!-- end of results -->"
_README = ("table-1-citation", "table-tu")
_HEAD = """# Results

Made by `make results` from the files in `results/`; the command that made each is below it. `tgnn report results` shows
them as a page with intervals, curves and tests. Seconds are of the machine named, and mean something only beside others
of the same table.
"""


def read_results(folder: Path) -> list[Result]:
    """All results of a folder, in the order of the paper."""
    order = list(EXPERIMENTS)
    found = [read_result(path) for path in sorted(folder.glob("*.json"))]
    return sorted(found, key=lambda result: order.index(result.name) if result.name in order else len(order))


def results_page(results: Sequence[Result]) -> str:
    """The page of all results."""
    return "\n".join([_HEAD, *(markdown(result, level=2) + _where(result) for result in results)])


def _where(result: Result) -> str:
    known = result.environment
    words = [f"{name} {known[name]}" for name in ("tgnn", "torch", "torch_geometric", "system") if name in known]
    return f"Machine: {known.get('cores', '?')} cores, {', '.join(words)}.\n" if known else ""


def readme_table(results: Sequence[Result]) -> str:
    """tGNN, GCN and the best of the others on every data set measured, beside the paper's figure."""
    lines = [
        "| data | metric | runs | tGNN | paper's tGNN | GCN (or GIN) | best other |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for result in results:
        if result.name in _README:
            lines += [line for column in result.columns if (line := _readme_line(result, column))]
    return "\n".join(lines)


def _readme_line(result: Result, column: str) -> str:
    means = {}
    for row in result.rows:
        cell = result.cell(row, column)
        if cell is not None and (found := summary(cell.tests)) is not None:
            means[row] = found
    ours = result.cell("tgnn", column)
    if ours is None or "tgnn" not in means:
        return ""
    plain = next((name for name in ("gcn", "gin") if name in means), None)
    others = {row: found for row, found in means.items() if row not in ("tgnn", plain)}
    best = max(others, key=lambda row: others[row].mean, default=None)

    def words(name: str | None, with_name: bool = False) -> str:
        if name is None:
            return ""
        return f"{name + ' ' if with_name else ''}{means[name].mean:.3f} ± {means[name].std:.3f}"

    paper = "" if ours.paper is None else f"{ours.paper:.3f}"
    cells = [column, ours.metric, str(means["tgnn"].runs), words("tgnn"), paper, words(plain), words(best, True)]
    return "| " + " | ".join(cells) + " |"


def with_table(readme: str, table: str) -> str:
    """The text of the README with that table between its two marks."""
    if BEGIN not in readme or END not in readme:
        raise ValueError(f"README.md has no place for the table: it needs the lines {BEGIN} and {END}")
    head, _, rest = readme.partition(BEGIN)
    return f"{head}{BEGIN}\n\n{table}\n\n{END}{rest.partition(END)[2]}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--docs", type=Path, default=Path("docs/results.md"))
    parser.add_argument("--readme", type=Path, default=Path("README.md"))
    found = parser.parse_args(arguments)
    results = read_results(found.results)
    write_text(found.docs, results_page(results))
    write_text(found.readme, with_table(found.readme.read_text(encoding="utf-8"), readme_table(results)))


if __name__ == "__main__":
    main()
