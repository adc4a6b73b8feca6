"""The command ``tgnn models``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tgnn.cli.console import out, print_json, print_rows, print_text

_MIN_WIDTHS = {"paper": 150, "parameters": 110}
"""Width of the terminal from which a column is shown. `tgnn models NAME` shows it, too."""
_REFERENCE = {"node": "cora", "graph": "zinc"}
"""Data set that the parameters are counted for, by task level."""


def models(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Name of a model, to show its hyperparameters and its search space."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """List all models that `tgnn train --model` accepts, or show the details of one model."""
    from tgnn.models import MODELS, get_model

    descriptions = [_describe(model.name) for model in ([get_model(name)] if name else MODELS.values())]
    if json:
        print_json(descriptions[0] if name else descriptions)
    elif name:
        _print_one(descriptions[0])
    else:
        _print_all(descriptions)


def _describe(name: str) -> dict[str, Any]:
    from tgnn.models import get_model, search_space

    model = get_model(name)
    levels = {level: build for level in ("node", "graph") if (build := model.builder(level)) is not None}
    return {
        "name": model.name,
        "tasks": list(levels),
        "year": model.year,
        "paper": model.paper,
        "summary": model.summary,
        "needs": list(model.needs),
        "uses": {level: list(model.uses(level)) for level in levels},
        "parameters": {_REFERENCE[level]: _count_parameters(name, level) for level in levels},
        "hyperparameters": {level: _hyperparameters(name, level, build) for level, build in levels.items()},
        "search_space": {level: {key: list(v) for key, v in search_space(name, level).items()} for level in levels},
    }


def _hyperparameters(name: str, level: str, build: Any) -> dict[str, Any]:
    """Return the values that the default recipe gives to the hyperparameters and to the keys of the search space."""
    from tgnn.models import model_options, search_space
    from tgnn.training.recipes import resolve

    config = resolve("", name, level).model_dump(mode="json")
    values = {f"model.{key}": config["model"].get(key, default) for key, (_, default) in model_options(build).items()}
    for key in search_space(name, level):
        section, _, field = key.partition(".")
        values.setdefault(key, config[section].get(field))
    return values


def _count_parameters(name: str, level: str) -> int:
    """Return the number of parameters of the default recipe, on Cora or on ZINC with bond features."""
    from tgnn.models import DataShape
    from tgnn.training.parallel_runs import mute_logs
    from tgnn.training.prepare import make_model
    from tgnn.training.recipes import resolve

    shape = DataShape("node", 1433, None, 7, nodes=2708) if level == "node" else DataShape("graph", (28,), (4,), 1)
    with mute_logs():  # not every model uses the bond features
        model = make_model(resolve("", name, level), shape)
    return sum(parameter.numel() for parameter in model.parameters())


def _print_all(descriptions: list[dict[str, Any]]) -> None:
    rows = []
    for model in descriptions:
        counts = " ".join(f"{count:,}" for count in model["parameters"].values())
        rows.append((model["name"], " ".join(model["tasks"]), counts, model["summary"], model["paper"]))
    headers = ("name", "tasks", "parameters", "summary", "paper")
    left_out = {header for header, width in _MIN_WIDTHS.items() if out.width < width}
    kept = [number for number, header in enumerate(headers) if header not in left_out]
    print_rows([headers[number] for number in kept], [[row[number] for number in kept] for row in rows], len(kept) - 1)
    print_text(
        "\nParameters are counted with the default recipe, on Cora (node) and on ZINC with bond features (graph). "
        "`tgnn models NAME` shows the details of a model."
    )


def _print_one(model: dict[str, Any]) -> None:
    print_text(f"{model['name']}: {model['summary']}", style="bold")
    print_text(model["paper"])
    print_text(f"Required inputs: {', '.join(['edges', *model['needs']])}")
    for level in model["tasks"]:
        data, space = _REFERENCE[level], model["search_space"][level]
        bonds = " with bond features" if level == "graph" else ""
        optional = f"; optional inputs: {', '.join(model['uses'][level])}" if model["uses"][level] else ""
        print_text(f"\n{level.capitalize()} tasks: {model['parameters'][data]:,} parameters on {data}{bonds}{optional}")
        rows = [
            (key, str(value), " ".join(str(candidate) for candidate in space.get(key, [])))
            for key, value in model["hyperparameters"][level].items()
        ]
        print_rows(("hyperparameter", "default recipe", "search space"), rows)
