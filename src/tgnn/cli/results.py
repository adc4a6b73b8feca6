"""The end of a run, in a few lines: what was measured, beside what the paper reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.text import Text

from tgnn.cli.console import note, out
from tgnn.experiments.paper_figures import reported


def show(result: dict[str, Any], folder: Path) -> None:
    """Prints the result of a run, or of several; a long path is not cut."""
    rows = _rows(result, folder)
    width = max(len(name) for name, _ in rows) + 2
    for name, text in rows:
        out.print(Text(f"{name:<{width}}", style="bold") + Text(text), soft_wrap=True)


def log(result: dict[str, Any], folder: Path) -> None:
    """The same for the log file."""
    for name, text in _rows(result, folder):
        note("%s", f"{name}: {text}" if name else text)


def _rows(result: dict[str, Any], folder: Path) -> list[tuple[str, str]]:
    runs = result["each"] if "runs" in result else [result]
    rows = [("data", f"{result['data']} ({_split(runs)})")]
    if runs[0]["differs"]:
        rows.append(("", runs[0]["differs"]))
    rows.append(("model", f"{result['model']}, {runs[0]['parameters']:,} parameters"))
    rows += _of_many(result) if "runs" in result else _of_one(result)
    if (figure := reported(result["model"], result["data"])) is not None:
        rows.append(("paper", f"{figure.value:.4f} ± {figure.spread:.4f} ({figure.table})"))
    return [*rows, ("saved in", str(folder))]


def _of_one(result: dict[str, Any]) -> list[tuple[str, str]]:
    seconds, epochs = result["seconds"], result["epochs"]
    return [
        (f"test {result['metric']}", f"{result['test']:.4f}"),
        ("validation", f"{result['val']:.4f} at epoch {result['best_epoch']} of {epochs}"),
        ("time", f"{seconds:.1f} s, {epochs / max(seconds, 1e-9):.1f} epochs/s"),
    ]


def _of_many(result: dict[str, Any]) -> list[tuple[str, str]]:
    low, high = result["interval"]
    return [
        (f"test {result['metric']}", f"{result['mean']:.4f} ± {result['std']:.4f} over {result['runs']} runs"),
        ("", f"95 % interval {low:.4f} to {high:.4f} (Student's t)"),
    ]


def _split(runs: list[dict[str, Any]]) -> str:
    """Name and hash of the split, as far as all runs share them."""
    names, hashes = {run["split"] for run in runs}, {run["split_hash"] for run in runs}
    name = f"{names.pop()} split" if len(names) == 1 else "splits"
    return f"{name}, {hashes.pop() if len(hashes) == 1 else 'one per seed'}"
