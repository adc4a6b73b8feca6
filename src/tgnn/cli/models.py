"""``tgnn models``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tgnn.cli.console import out, print_json, print_table

_REFERENCE = {"node": "cora", "graph": "zinc"}
"""Whose sizes the parameters are counted for."""


def models(
    name: Annotated[str | None, typer.Argument(help="One model, to see its settings and what a search tries.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one machine-readable object.")] = False,
) -> None:
    """All models that `tgnn train --model` takes, or all about one of them."""
    from tgnn.models import MODELS, get_model

    rows = [_about(model.name) for model in ([get_model(name)] if name else MODELS.values())]
    if json:
        print_json(rows[0] if name else rows)
    elif name:
        _show_one(rows[0])
    else:
        _show_all(rows)


def _about(name: str) -> dict[str, Any]:
    from tgnn.models import get_model
    from tgnn.models.ranges import search_space

    model = get_model(name)
    levels = {level: build for level in ("node", "graph") if (build := model.builder(level)) is not None}
    return {
        "name": model.name,
        "tasks": list(levels),
        "year": model.year,
        "paper": model.paper,
        "idea": model.idea,
        "needs": list(model.needs),
        "uses": {level: list(model.uses(level)) for level in levels},
        "parameters": {_REFERENCE[level]: _count(name, level) for level in levels},
        "settings": {level: _settings(name, level, build) for level, build in levels.items()},
        "search": {level: {key: list(v) for key, v in search_space(name, level).items()} for level in levels},
    }


def _settings(name: str, level: str, build: Any) -> dict[str, Any]:
    """Of the default recipe: those of the model's own, and those that a search tries."""
    from tgnn.models.ranges import search_space
    from tgnn.models.registry import model_options
    from tgnn.training.recipes import resolve

    plain = resolve("", name, level).model_dump(mode="json")
    found = {f"model.{key}": plain["model"].get(key, default) for key, (_, default) in model_options(build).items()}
    for key in search_space(name, level):
        section, _, last = key.partition(".")
        found.setdefault(key, plain[section].get(last))
    return found


def _count(name: str, level: str) -> int:
    """Parameters of the model as its default recipe has it, on Cora or ZINC with bonds."""
    from tgnn.models.data_shape import DataShape
    from tgnn.training.model_check import build_silently
    from tgnn.training.recipes import resolve

    shape = DataShape("node", 1433, None, 7, nodes=2708) if level == "node" else DataShape("graph", (28,), (4,), 1)
    model = build_silently(resolve("", name, level).model, shape)
    return sum(parameter.numel() for parameter in model.parameters())


def _show_all(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    table = Table("name", "tasks", "parameters", "idea", "paper", box=None, pad_edge=False)
    for row in rows:
        counts = " ".join(f"{count:,}" for count in row["parameters"].values())
        table.add_row(row["name"], " ".join(row["tasks"]), counts, row["idea"], row["paper"])
    print_table(table)
    out.print(
        "\nParameters: of the default recipe, on Cora (node), ZINC with bonds (graph). `tgnn models NAME` tells more."
    )


def _show_one(row: dict[str, Any]) -> None:
    from rich.table import Table

    out.print(f"[bold]{row['name']}[/bold]: {row['idea']}")
    out.print(row["paper"])
    out.print(f"needs {', '.join(row['needs']) or 'nothing but edges'}")
    for level in row["tasks"]:
        data = _REFERENCE[level]
        bonds = " with bonds" if level == "graph" else ""
        uses = "".join(f", uses {part}" for part in row["uses"][level])
        out.print(f"\n{level} tasks, {row['parameters'][data]:,} parameters on {data}{bonds}{uses}")
        table = Table("setting", "default recipe", "a search tries", box=None, pad_edge=False)
        settings, search = row["settings"][level], row["search"][level]
        for key, value in settings.items():
            table.add_row(key, str(value), " ".join(str(one) for one in search.get(key, [])))
        print_table(table)
