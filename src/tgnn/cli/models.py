"""``tgnn models``."""

from __future__ import annotations

from typing import Annotated

import typer

from tgnn.cli.console import out, print_json


def models(json: Annotated[bool, typer.Option("--json", help="Print one machine-readable object.")] = False) -> None:
    """All models that `tgnn train --model` takes."""
    from tgnn.baselines import MODELS

    rows = [
        {
            "name": model.name,
            "tasks": [level for level in ("node", "graph") if model.builder(level) is not None],
            "idea": model.idea,
            "paper": model.paper,
        }
        for model in MODELS.values()
    ]
    if json:
        print_json(rows)
        return
    from rich.table import Table

    table = Table("name", "tasks", "idea", "paper", box=None, pad_edge=False)
    for row in rows:
        table.add_row(str(row["name"]), ", ".join(row["tasks"]), str(row["idea"]), str(row["paper"]))
    out.print(table)
