"""``docs/results.md`` and the table of the README, out of the results: ``python -m tgnn.experiments.result_pages``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from tgnn.experiments.definitions import EXPERIMENTS
from tgnn.experiments.format_markdown import markdown
from tgnn.experiments.results import Result, read_result
from tgnn.experiments.statistics import Summary, summary
from tgnn.training.metrics import HIGHER_IS_BETTER
from tgnn.utils.io import write_text

BEGIN, END = "<!-- results: made by `make results`, not by hand -->", "<!-- end of results -->"
_README = ("table-1-citation", "table-1-ogb", "table-2-graph", "table-zinc", "table-tu", "table-dense")
_WORDS = {"mae": "MAE (less is better)", "roc-auc": "ROC-AUC"}
_HEAD = """# Results

Made by `make results` from the files in `results/`; the command that made each is below it. `tgnn report results` shows
them as a page with intervals, curves and tests. Seconds are of the machine named, and mean something only beside others
of the same table. Our protocol is not the paper's in all:
[how it differs, and what that does](reproduce.md#where-our-protocol-differs-from-the-papers).
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
    """tGNN, GCN and the best of the others on every data set measured, beside the paper's; and what else there is."""
    found = [line for result in results if result.name in _README for line in _lines(result)]
    parts = []
    if found:
        head = ["data", "test", "runs", "tGNN", "95 % bootstrap interval", "tGNN in the paper"]
        head += ["GCN (or GIN)", "best other"]
        parts += ["\n".join([_line(head), _line(["---"] * len(head)), *found])]
        parts += [
            "Mean ± standard deviation; settings and epochs were chosen on validation ([What makes it "
            "learn](docs/accuracy.md) tells where that was done again after a first figure on test). "
            "Classes of citation networks are expected as often as validation has them, by all models"
            f"{_as_learned(results)}. "
            "[How that differs from the paper](docs/reproduce.md#where-our-protocol-differs-from-the-papers)."
        ]
    else:
        parts += ["No table of accuracies has been measured yet: `tgnn reproduce table-1-citation` makes the first."]
    titles = [result.title for result in results if result.name not in _README]
    if titles:
        parts += [f"Measured as well, in [docs/results.md](docs/results.md): {'; '.join(titles)}."]
    return "\n\n".join(parts)


def _as_learned(results: Sequence[Result]) -> str:
    """What tGNN and GCN have without that, in a bracket; nothing where it was not measured."""
    cells = [cell for result in results if result.name == "table-shares" for cell in result.cells]
    found = []
    for name, row in (("tGNN", "tgnn as learned"), ("GCN", "gcn as learned")):
        means = {cell.column: got.mean for cell in cells if cell.row == row and (got := summary(cell.tests))}
        found += [f"{name} {', '.join(f'{mean:.3f} on {data}' for data, mean in means.items())}"] if means else []
    return f" (as often as they were learned, with the same settings: {'; '.join(found)})" if found else ""


def _lines(result: Result) -> list[str]:
    return [line for column in result.columns if (line := _readme_line(result, column))]


def _readme_line(result: Result, column: str) -> str:
    cells = {cell.row: cell for cell in result.cells if cell.column == column}
    means = {row: found for row, cell in cells.items() if (found := summary(cell.tests)) is not None}
    if "tgnn" not in means:
        return ""
    ours, cell = means["tgnn"], cells["tgnn"]
    plain = next((name for name in ("gcn", "gin") if name in means), None)
    sign = 1 if HIGHER_IS_BETTER.get(cell.metric, True) else -1
    others = {row: sign * found.mean for row, found in means.items() if row not in ("tgnn", plain)}
    best = max(others, key=lambda row: others[row], default=None)
    spread = f" ± {cell.paper_spread:.3f}" if cell.paper_spread else ""
    paper = "" if cell.paper is None else f"{cell.paper:.3f}{spread}"
    interval = "" if ours.interval is None else "{:.3f} to {:.3f}".format(*ours.interval)
    rest = ["" if plain is None else _mean(means[plain]), "" if best is None else f"{best} {_mean(means[best])}"]
    data = cell.config.get("data", {}).get("name", column)
    what = [column if column == data else f"{data}, {column}", _WORDS.get(cell.metric, cell.metric)]
    return _line([*what, str(ours.runs), _mean(ours), interval, paper, *rest])


def _mean(found: Summary) -> str:
    return f"{found.mean:.3f}" + (f" ± {found.std:.3f}" if found.runs > 1 else "")


def _line(cells: Sequence[str]) -> str:
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
