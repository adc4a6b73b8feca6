"""``tgnn compare``: train several models on one data set with the same splits, and say which one to use."""

from __future__ import annotations

import os
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tgnn.cli import console
from tgnn.cli.console import err, print_json, print_rows, print_text
from tgnn.cli.options import METRIC_HELP, IdColumn, Json, Offline, Root, Target, TaskOption
from tgnn.cli.reproduce import show_progress
from tgnn.cli.train import check_data_and_model, check_output_folder, parse_option, shareable_options

if TYPE_CHECKING:
    from tgnn.experiments.compare import ComparedModel, Comparison


def compare(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Name of a data set (see `tgnn data list`).")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Path of your own data instead of NAME.")] = None,
    models: Annotated[
        str | None,
        typer.Option(
            help="Names of models, separated by commas. Default: mlp, gcn, graphsage (for graphs: gin), tgnn without "
            "products, tgnn."
        ),
    ] = None,
    target: Target = None,
    id_column: IdColumn = None,
    task: TaskOption = None,
    metric: Annotated[str | None, typer.Option(help=f"Metric of validation and test: {METRIC_HELP}")] = None,
    epochs: Annotated[int | None, typer.Option(help="Maximum number of epochs of all models.")] = None,
    runs: Annotated[int, typer.Option(min=1, help="Number of seeds and splits.")] = 5,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Number of runs to train in parallel. Default: number of cores.")
    ] = None,
    root: Root = None,
    offline: Offline = False,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set an option of all models.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Folder for the runs. Default: runs/compare/<data>.")
    ] = None,
    json: Json = False,
) -> None:
    """Compare models on a data set: same splits and seeds, confidence intervals, paired tests, and a conclusion.

    The model is selected by its validation metric. Finished runs are reused.
    You can interrupt the command at any time and run it again to continue.

    Examples: `tgnn compare --data my_folder`, `tgnn compare cora --models gcn,gat,tgnn --runs 10`.
    """
    if name is not None and data is not None:
        raise typer.BadParameter("Give NAME or --data, not both.", param_hint="NAME")
    named = {
        "train.metric": metric,
        "train.epochs": epochs,
        "data.target": target,
        "data.id": id_column,
        "data.task": task,
    }
    named = {key: value for key, value in named.items() if value is not None}
    changes = [word for key, value in named.items() for word in (f"--{key.partition('.')[2]}", str(value))]
    changes += [word for text in shareable_options(overrides or []) for word in ("--set", text)]
    overrides = [*(overrides or []), *(f"{key}={value}" for key, value in named.items())]
    options: dict[str, Any] = {"data.root": root and str(root), "data.offline": offline or None}
    options = {key: value for key, value in options.items() if value is not None}
    options |= dict(parse_option(text) for text in overrides)
    check_data_and_model(name or data, None, None, options)
    source: str | Path = options.pop("data.name", None) or name or data or ""
    folder = folder or Path("runs") / "compare" / Path(str(source)).resolve().name
    check_output_folder(folder)
    arguments = ["tgnn", "compare", *([name] if name else ["--data", str(data)])]
    arguments += ["--models", models] if models else []
    arguments += ["--runs", str(runs)]
    arguments += changes
    from tgnn.experiments.compare import compare as compare_models
    from tgnn.training.interrupts import sigterm_as_interrupt

    names = None if models is None else [model.strip() for model in models.split(",") if model.strip()]
    try:
        with sigterm_as_interrupt(), show_progress(quiet=json or console.verbosity < 0) as on_progress:
            comparison = compare_models(
                source, folder, names, runs, options, jobs or os.cpu_count() or 1, shlex.join(arguments), on_progress
            )
    except KeyboardInterrupt:
        err.print("interrupted; run the same command again to continue")
        raise typer.Exit(130) from None
    if json:
        print_json(asdict(comparison))
    else:
        _print(comparison)
        best = comparison.selected
        model = ["--model", "tgnn", "--rank", "0"] if best == "tgnn without products" else ["--model", best]
        train = [*(["tgnn", "train", name] if name else ["tgnn", "train", "--data", str(data)]), *model, *changes]
        print_text(f"train it with: {shlex.join(train)}", err)
        print_text(f"saved in {folder}; show it as a page: tgnn report {folder}", err)
    if any(model.failed for model in comparison.models):
        raise typer.Exit(1)


def _print(comparison: Comparison) -> None:
    headers = ["model", f"test {comparison.metric}", "95% interval", "validation", "difference", "p", "seconds"]
    print_rows(headers, [_row(model, comparison) for model in comparison.models], 1)
    tested = "the same split" if comparison.test_ratio == 0 else f"{comparison.runs} splits"
    print_text(
        f"{comparison.runs} seeds on {tested}; differences to {comparison.selected}, which has the best validation "
        f"{comparison.metric}; p of the paired t-test"
        + ("" if comparison.test_ratio == 0 else ", corrected for overlapping splits")
    )
    print_text(f"{comparison.data}: {comparison.conclusion}", style="bold")


def _row(model: ComparedModel, comparison: Comparison) -> list[str]:
    from tgnn.experiments.compare import format_difference

    if model.mean is None:
        return [model.name, "failed"]
    return [
        model.name,
        f"{model.mean:.4f} ± {model.std:.4f}" + (f" ({len(model.tests)} runs)" * (len(model.tests) < comparison.runs)),
        "" if model.interval is None else f"{model.interval[0]:.4f} to {model.interval[1]:.4f}",
        "" if model.val is None else f"{model.val:.4f}",
        "" if model.difference is None else format_difference(model.difference, comparison.metric),
        "" if model.p_value is None else f"{model.p_value:.3f}",
        "" if model.seconds is None else f"{model.seconds:.1f}",
    ]
