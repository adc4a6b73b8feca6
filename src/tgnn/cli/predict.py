"""``tgnn predict`` and ``tgnn evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tgnn.cli.console import err, print_json, print_text
from tgnn.cli.options import Device, IdColumn, Json, RunPath, Target, TaskOption, read_options


def predict(
    run: RunPath,
    data: Annotated[str | None, typer.Option(help="Name or path of new data. Default: the data of the run.")] = None,
    target: Annotated[Path, typer.Option("--out", help="The .csv or .parquet file to write.")] = Path(
        "predictions.csv"
    ),
    id_column: IdColumn = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at molecules that cannot be read, instead of leaving them empty.")
    ] = False,
    device: Device = "auto",
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    spreadsheet_safe: Annotated[
        bool,
        typer.Option(
            "--spreadsheet-safe", help="Put an apostrophe before text that a spreadsheet would read as a formula."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Predict with a trained model and write ids, classes or values, and probabilities to a file."""
    if target.suffix not in (".csv", ".parquet"):
        raise typer.BadParameter(f"{target} must end in .csv or .parquet.", param_hint="--out")
    if not target.parent.is_dir():
        raise typer.BadParameter(f"The folder {target.parent} does not exist.", param_hint="--out")
    if target.exists() and not force:
        raise typer.BadParameter(f"{target} exists. Use --force to overwrite it.", param_hint="--out")
    import tgnn

    predictions = tgnn.predict(
        run,
        _name_or_path(data),
        out=target,
        device=device,
        id=id_column,
        strict=strict,
        spreadsheet_safe=spreadsheet_safe,
    )
    unreadable = predictions.unreadable
    if json:
        skipped = [{"place": row.place, "id": row.id, "value": row.text} for row in unreadable]
        print_json({"rows": len(predictions), "file": str(target), "unreadable": skipped})
        return
    if unreadable:
        places = ", ".join(f"{row.place} ({row.text!r})" for row in unreadable)
        print_text(f"{len(unreadable):,} of {len(predictions):,} rows have no prediction: {places}", err)
    names = predictions.table(0, 1).columns
    columns = ", ".join([*names[:6], *(["…"] if len(names) > 6 else [])])
    print_text(f"{target}: {len(predictions):,} rows, columns {columns}")


def evaluate(
    run: RunPath,
    data: Annotated[
        str | None,
        typer.Option(help="Name or path of labeled new data, or of the run's own data. Default: the test set."),
    ] = None,
    target: Target = None,
    id_column: IdColumn = None,
    task: TaskOption = None,
    metric: Annotated[
        str | None, typer.Option(help="Metric to compute, e.g. macro-f1 or rmse. Default: the metric of the run.")
    ] = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Evaluate a trained model on its test set, or on labeled new data."""
    from tgnn.training.repeated_runs import load_run

    options = read_options(target, id_column, task)
    result = load_run(run).evaluate(_name_or_path(data), metric, device, options)
    if json:
        print_json(result)
        return
    digits = ".2e" if result["metric"] == "bit error rate" else ".4f"
    recorded = result["recorded"]
    after_training = "" if recorded is None else f" (recorded after training: {recorded:{digits}})"
    is_new = result["split_hash"] is None
    score = f"{result['metric']} {result['test']:{digits}}"
    if is_new:
        print_text(f"{score} on {result['examples']:,} labeled examples of {data}")
    else:
        print_text(f"test {score}{after_training}, {result['split']} split {result['split_hash']}")
    if "details" in result:
        from tgnn.cli.training_output import print_details

        print_details(result["details"], alone=True, is_new=is_new)


def _name_or_path(data: str | None) -> str | None:
    """Prefer an existing folder over the data set of the same name, as ``tgnn train --data`` does."""
    from tgnn.data.catalog import CATALOG

    return str(Path(data).resolve()) if data is not None and data in CATALOG and Path(data).exists() else data
