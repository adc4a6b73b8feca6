"""Small results, studies and run folders, and the texts and charts of their page."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import yaml
from plotly.offline import get_plotlyjs

from tgnn.experiments.results import CellResult, Result, RunResult
from tgnn.report.collect import ReportReader
from tgnn.report.render import render
from tgnn.tuning.results import StudyResult, Trial

NASTY = "<script>alert(1)</script>\"'&</title>"
"""A name that must stay text wherever it is shown."""


def page_of(*paths: Path) -> str:
    """Render the page of files and folders, without the source of plotly."""
    page = render(ReportReader(paths).read())
    assert page.count(get_plotlyjs()) == 1
    return page.replace(get_plotlyjs(), "")


def text_of(page: str) -> str:
    """Return the text of the main part of a page."""
    main = page.partition("<main")[2].partition("</main")[0]
    return re.sub(r"\s+", " ", re.sub(r"<script.*?</script>|<[^>]+>", " ", main, flags=re.S))


def rows_of(page: str) -> list[list[str]]:
    """Return the words of each row of the first table, with its headers first."""
    table = page.partition("<table>")[2].partition("</table>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", table, flags=re.S)
    return [html.unescape(re.sub(r"<[^>]*>", " ", row)).split() for row in rows]


def charts_of(page: str) -> list[dict[str, Any]]:
    """Return the plotly figures of a page, each with its text alternative and the title above it."""
    figure = re.compile(
        r'<figure class="chart[^"]*" aria-label="([^"]*)">\s*(?:<figcaption>([^<]*)</figcaption>)?.*?'
        r'<script type="application/json">([^<]*)</script>',
        flags=re.S,
    )
    return [
        {**json.loads(text), "alternative": html.unescape(alternative), "title": html.unescape(title)}
        for alternative, title, text in figure.findall(page)
    ]


def outcomes(*tests: float, seconds: float = 2.0) -> tuple[RunResult, ...]:
    return tuple(
        RunResult(seed, test, test, 100, 50, seconds, 1000 + seed, f"split{seed}", "data", "config")
        for seed, test in enumerate(tests)
    )


def around(mean: float, step: float = 0.004, runs: int = 6) -> tuple[RunResult, ...]:
    return outcomes(*(mean + step * (seed - (runs - 1) / 2) for seed in range(runs)))


def table(name: str = "table-x", **changes: Any) -> Result:
    """Three models on two data sets; one cell failed, one is not there."""
    cells = [
        CellResult("gcn", "cora", "accuracy", runs=around(0.80), paper=0.87, paper_spread=0.01),
        CellResult("gcn", "citeseer", "accuracy", runs=around(0.70), paper=0.70, paper_spread=0.02),
        CellResult("gat", "cora", "accuracy", failed="out of memory", paper=0.86),
        CellResult("tgnn", "cora", "accuracy", runs=around(0.88), paper=0.8808, paper_spread=0.0131),
        CellResult("tgnn", "citeseer", "accuracy", runs=around(0.80), paper=0.8051),
    ]
    return Result(name, **{"cells": cells, "environment": {"system": "Linux x"}, **changes})


def write_run(
    folder: Path, data: str = "cora", model: str = "tgnn", test: float | None = 0.85, epochs: int = 30, seed: int = 0
) -> Path:
    """A run folder as ``tgnn train`` leaves it; without ``test`` it is not finished."""
    folder.mkdir(parents=True)
    config = {"data": {"name": data}, "model": {"name": model, "rank": 8}, "train": {"epochs": 50, "seed": seed}}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    (folder / "environment.json").write_text(json.dumps({"tgnn": "0.1.0", "system": "Linux x", "cores": 2}))
    facts = {"info": {"name": data}, "data_hash": "aaa111", "split": {"hash": "bbb222"}, "task": {"metric": "accuracy"}}
    (folder / "data.json").write_text(json.dumps(facts))
    lines = [
        {
            "epoch": epoch,
            "loss": 2 / (1 + epoch),
            "val_loss": 2.2 / (1 + epoch),
            "val_accuracy": 0.9 - 0.5 / (1 + epoch),
            "a_high/convs.0": 0.5 + epoch / 100,
            "a_low/convs.0": 0.5 - epoch / 100,
            "seconds": 0.1 * epoch,
        }
        for epoch in range(epochs)
    ]
    (folder / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if test is not None:
        metrics = {
            **{"data": data, "model": model, "metric": "accuracy", "test": test, "val": test + 0.01, "epochs": epochs},
            **{"best_epoch": epochs, "seconds": 3.5, "parameters": 12345, "config_hash": "ccc333"},
        }
        (folder / "metrics.json").write_text(json.dumps(metrics))
    return folder


def study(folder: Path, **changes: Any) -> Path:
    """A folder as ``tgnn tune`` leaves it: seven trials of eight, one pruned with a score, one without, one failed."""
    tried = [
        Trial(0, "complete", {"optimizer.lr": 0.01, "model.norm": False}, 0.71, (0.70, 0.72), 1.5),
        Trial(1, "failed", {"optimizer.lr": 1.0, "model.norm": True}, None, (), 0.2, NASTY),
        Trial(2, "complete", {"optimizer.lr": 0.1, "model.norm": True}, 0.83, (0.82, 0.84), 1.25),
        Trial(3, "pruned", {"optimizer.lr": 0.001, "model.norm": True}, None, (), 0.5, last_score=0.42),
        Trial(4, "pruned", {"optimizer.lr": 0.001, "model.norm": False}, None, (), 0.5),
        Trial(5, "complete", {"optimizer.lr": 0.05, "model.norm": True}, 0.79, (0.78, 0.80), 1.0),
        Trial(6, "running", {}),
    ]
    facts: dict[str, Any] = {
        **{"name": "cora-gcn", "data": "cora", "model": "gcn", "metric": "accuracy", "higher_is_better": True},
        **{"split": "per-class-quota", "splits": 2, "trials": tried, "num_trials": 8, "config": {}},
        **{"space": {"optimizer.lr": [0.001, 0.01, 0.05, 0.1, 1.0], "model.norm": [False, True]}},
        **{"importance": {"model.norm": 0.25, "optimizer.lr": 0.75}, "command": "tgnn tune cora --model gcn"},
        **{"environment": {"optuna": "4.5.0", "system": "Linux x"}, "data_hash": "ddd444"},
    }
    folder.mkdir(parents=True)
    StudyResult(**{**facts, **changes}).write(folder / "study.json")
    (folder / "best.yaml").write_text("# Best of 6 trials\noptimizer: {lr: 0.1}\n")
    return folder
