"""``tgnn train --model auto``: train several models and keep the best one on the validation set."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from tgnn.cli import console
from tgnn.cli.console import err, format_duration, out, print_json, print_rows, print_text
from tgnn.cli.training_output import print_result, show_progress
from tgnn.data.load import task_level
from tgnn.training.candidates import list_candidates
from tgnn.training.candidates import train_auto as train_candidates
from tgnn.training.interrupts import Interrupted
from tgnn.training.train import default_folder, resolve_config


def train_auto(
    data: str | Path | None,
    recipe: Path | None,
    options: Mapping[str, Any],
    runs: int,
    jobs: int | None,
    folder: Path | None,
    json: bool,
) -> None:
    """Train all candidates, print their validation metrics, and print the result of the best one."""
    config = resolve_config(data, "tgnn", recipe, options)
    folder = folder or default_folder(config, auto=True)
    total = len(list_candidates(task_level(config.data.name))) + (runs if runs > 1 else 0)
    seconds: list[float] = []

    def advance(text: str, metrics: dict[str, Any]) -> None:
        seconds.append(metrics["seconds"])
        left = (total - len(seconds)) * sum(seconds) / len(seconds) / (jobs or 1)
        status = f"{text}, about {format_duration(left)} left" if len(seconds) < total else text
        show(len(seconds), status, f"{status} ({len(seconds)}/{total})")

    try:
        with show_progress(f"{Path(config.data.name).name} auto", total, json or console.verbosity < 0) as show:
            run = train_candidates(
                data,
                folder,
                recipe,
                options,
                runs,
                jobs,
                lambda name, metrics: advance(f"{name}: validation {metrics['val']:.4f}", metrics),
                lambda metrics: advance(f"seed {metrics['seed']}: test {metrics['test']:.4f}", metrics),
            )
    except (Interrupted, KeyboardInterrupt):
        again = f"run the same command with --out {folder} again to continue"
        print_text(f"interrupted; {again}", err)
        raise typer.Exit(130) from None
    metrics = run.metrics
    if json:
        print_json({**metrics, "folder": str(folder)})
        return
    if "candidates" in metrics:
        rows = [[row["name"], f"{row['val']:.4f}", f"{row['seconds']:.1f} s"] for row in metrics["candidates"]]
        print_rows(["candidate", f"validation {metrics['metric']}", "time"], rows, 1)
        out.print()
    print_result(metrics, folder)
