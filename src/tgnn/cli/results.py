"""The end of a run, as a table: what was measured, beside what the paper reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.table import Table

from tgnn.cli.console import out
from tgnn.paper import reported


def show(result: dict[str, Any], folder: Path) -> None:
    """Prints the result of a run, or of several."""
    several = "runs" in result
    first = result["each"][0] if several else result
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_row("data", f"{result['data']} ({first['split']} split, {first['split_hash']})")
    if first["differs"]:
        table.add_row("", first["differs"])
    table.add_row("model", f"{result['model']}, {first['parameters']:,} parameters")
    if several:
        low, high = result["interval"]
        table.add_row(
            f"test {result['metric']}", f"{result['mean']:.4f} ± {result['std']:.4f} over {result['runs']} runs"
        )
        table.add_row("", f"95 % interval {low:.4f} to {high:.4f}")
    else:
        table.add_row(f"test {result['metric']}", f"{result['test']:.4f}")
        table.add_row("validation", f"{result['val']:.4f} at epoch {result['best_epoch'] + 1} of {result['epochs']}")
        table.add_row(
            "time", f"{result['seconds']:.1f} s, {result['epochs'] / max(result['seconds'], 1e-9):.1f} epochs/s"
        )
    if (figure := reported(result["model"], result["data"])) is not None:
        table.add_row("paper", f"{figure.value:.4f} ± {figure.spread:.4f} ({figure.table})")
    table.add_row("saved in", str(folder))
    out.print(table, soft_wrap=True)
