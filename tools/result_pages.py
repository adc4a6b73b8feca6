"""Generate docs/results.md and the results block of the README from the files in results/.

Run: make results, or python tools/result_pages.py
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tgnn.experiments.captions import result_title
from tgnn.experiments.definitions import EXPERIMENTS
from tgnn.experiments.formats import to_markdown
from tgnn.experiments.results import Result, read_result
from tgnn.experiments.statistics import ScoreSummary, summarize_scores
from tgnn.training.metrics import HIGHER_IS_BETTER
from tgnn.utils.io import write_text

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- results: made by `make results`, not by hand -->", "<!-- end of results -->"
_README_TABLES = ("table-1-citation", "table-1-ogb", "table-2-graph", "table-zinc", "table-tu", "table-dense")
_METRIC_NAMES = {"mae": "MAE (lower is better)", "roc-auc": "ROC-AUC"}
_HEAD = """# Results

This page shows the results of every experiment that was run, next to the values that the paper reports. Table 1, right
(OGB), was not run because the files were not available. `make results` generates this page from the files in
`results/`. Each section ends with the commands that produced it. `tgnn report results` shows the same results as an
interactive page with confidence intervals, curves and tests.

Training times were measured on the machine named below each table. They can only be compared within a table. See also
[how our protocol differs from the paper's](reproduce.md#where-our-protocol-differs-from-the-papers).
"""


def read_results(folder: Path) -> list[Result]:
    """Read all results of a folder, in the order of the paper."""
    order = list(EXPERIMENTS)
    results = [read_result(path) for path in sorted(folder.glob("*.json"))]
    return sorted(results, key=lambda result: order.index(result.name) if result.name in order else len(order))


def results_page(results: Sequence[Result]) -> str:
    """Format all results as the page ``docs/results.md``."""
    return "\n".join([_HEAD, *(to_markdown(result, level=2) + _machine_line(result) for result in results)])


def _machine_line(result: Result) -> str:
    known = result.environment
    versions = [f"{name} {known[name]}" for name in ("tgnn", "torch", "torch_geometric") if name in known]
    system = ", ".join([*([str(known["system"])] if "system" in known else []), f"{known.get('cores', '?')} cores"])
    return f"\nMachine: {', '.join([system, *versions])}.\n" if known else ""


def readme_table(results: Sequence[Result]) -> str:
    """Format the results block of the README: tGNN, GCN (or GIN) and the best other baseline on every data set."""
    rows = [row for result in results if result.name in _README_TABLES for row in _rows(result)]
    parts = []
    if rows:
        head = ["data set", "test metric", "runs", "tGNN", "95% bootstrap interval", "tGNN in the paper"]
        head += ["GCN (or GIN)", "best baseline other than GCN/GIN"]
        parts += ["\n".join([_line(head), _line(["---"] * len(head)), *rows])]
        parts += [
            "Scores are mean ± standard deviation on the test set. Intervals need at least five runs. A cell is empty "
            "if the model was not run or the paper has no value. The best epoch is selected on the validation set. "
            "Hyperparameters are tuned on the validation set, taken from published configurations, or set by hand. The "
            "notes in [docs/results.md](docs/results.md) say which. The [research "
            "log](docs/research_log.md#selections-made-after-a-test-score-was-known) lists the rows that were run "
            "again with other hyperparameters after a first test score was known. On citation networks, prior "
            "correction with the class priors of the validation set is "
            f"applied to all models.{_scores_without_prior_correction(results)} "
            "See [how our protocol differs from the "
            "paper's](docs/reproduce.md#where-our-protocol-differs-from-the-papers)."
        ]
    else:
        parts += ["No results have been measured yet. Run `tgnn reproduce table-1-citation` to measure the first ones."]
    titles = [result_title(result) for result in results if result.name not in _README_TABLES]
    if titles:
        parts += [
            "More results are in [docs/results.md](docs/results.md):",
            "\n".join(f"- {title}" for title in titles),
        ]
    return "\n\n".join(parts)


def _scores_without_prior_correction(results: Sequence[Result]) -> str:
    """Format the scores of tGNN and GCN without prior correction as a sentence, if they were measured."""
    cells = [cell for result in results if result.name == "table-prior-correction" for cell in result.cells]
    texts = []
    for name, row in (("tGNN", "tgnn without prior correction"), ("GCN", "gcn without prior correction")):
        means = {
            cell.column: scores.mean
            for cell in cells
            if cell.row == row and (scores := summarize_scores(cell.tests)) is not None
        }
        texts += [f"{name} {', '.join(f'{mean:.3f} on {data}' for data, mean in means.items())}"] if means else []
    return f" Without it, the scores with the same hyperparameters are {'; '.join(texts)}." if texts else ""


def _rows(result: Result) -> list[str]:
    return [row for column in result.columns if (row := _readme_row(result, column))]


def _readme_row(result: Result, column: str) -> str:
    cells = {cell.row: cell for cell in result.cells if cell.column == column}
    means = {row: scores for row, cell in cells.items() if (scores := summarize_scores(cell.tests)) is not None}
    if "tgnn" not in means:
        return ""
    ours, cell = means["tgnn"], cells["tgnn"]
    baseline = next((name for name in ("gcn", "gin") if name in means), None)
    sign = 1 if HIGHER_IS_BETTER.get(cell.metric, True) else -1
    baselines = {row: scores for row, scores in means.items() if row.split()[0] != "tgnn"}  # no variants of tGNN
    others = {row: sign * scores.mean for row, scores in baselines.items() if row not in ("gcn", "gin")}
    best = max(others, key=lambda row: others[row], default=None)
    spread = f" ± {cell.paper_spread:.3f}" if cell.paper_spread else ""
    paper = "" if cell.paper is None else f"{cell.paper:.3f}{spread}"
    interval = "" if ours.interval is None else "{:.3f} to {:.3f}".format(*ours.interval)
    rest = ["" if baseline is None else _mean(means[baseline]), "" if best is None else f"{best} {_mean(means[best])}"]
    data = cell.config.get("data", {}).get("name", column)
    name = column if column.startswith(data) else f"{data}, {column}"
    _, _, training_graphs = str(cell.config.get("data", {}).get("split")).partition(":")
    name += f", {int(training_graphs):,} training graphs" if training_graphs else ""
    names = [name, _METRIC_NAMES.get(cell.metric, cell.metric)]
    return _line([*names, str(ours.runs), _mean(ours), interval, paper, *rest])


def _mean(scores: ScoreSummary) -> str:
    return f"{scores.mean:.3f}" + (f" ± {scores.std:.3f}" if scores.runs > 1 else "")


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def with_table(readme: str, table: str) -> str:
    """Return the text of the README with the results block replaced."""
    if BEGIN not in readme or END not in readme:
        raise ValueError(f"README.md has no results block; it needs the lines {BEGIN} and {END}")
    head, _, rest = readme.partition(BEGIN)
    return f"{head}{BEGIN}\n\n{table}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    stored = read_results(ROOT / "results")
    readme = ROOT / "README.md"
    write_text(ROOT / "docs/results.md", results_page(stored))
    write_text(readme, with_table(readme.read_text(encoding="utf-8"), readme_table(stored)))
