"""``tgnn predict`` and ``tgnn evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tgnn.cli.console import out, print_json

Run = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")]
Json = Annotated[bool, typer.Option("--json", help="Print one machine-readable object and nothing else.")]


def predict(
    run: Run,
    data: Annotated[str | None, typer.Option(help="New data; by default the run's own.")] = None,
    target: Annotated[Path, typer.Option("--out", help="A .csv or .parquet file.")] = Path("predictions.csv"),
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.")] = "auto",
    force: Annotated[bool, typer.Option("--force", help="Write over a file that exists.")] = False,
    json: Json = False,
) -> None:
    """Write what a trained model says: ids, class or value, probabilities."""
    if target.suffix not in (".csv", ".parquet"):
        raise typer.BadParameter(f"{target} must end in .csv or .parquet", param_hint="--out")
    if not target.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {target.parent}", param_hint="--out")
    if target.exists() and not force:
        raise typer.BadParameter(f"{target} exists; give --force to write over it", param_hint="--out")
    from tgnn.training.predict import predict as ask

    found = ask(run, _place(data), device)
    found.write(target)
    if json:
        print_json({"rows": len(found.ids), "file": str(target)})
        return
    names = found.table(0, 1).columns
    columns = ", ".join([*names[:6], *(["…"] if len(names) > 6 else [])])
    out.print(f"{target}: {len(found):,} rows, columns {columns}", markup=False, highlight=False, soft_wrap=True)


def evaluate(
    run: Run,
    data: Annotated[str | None, typer.Option(help="Where the run's own data lies now, if it was moved.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, mps.")] = "auto",
    json: Json = False,
) -> None:
    """Score a trained model again on the test part of its own data."""
    from tgnn.training.evaluate import evaluate as score

    result = score(run, device, _place(data))
    if json:
        print_json(result)
        return
    out.print(
        f"test {result['metric']} {result['test']:.4f} (recorded when it was trained: {result['recorded']:.4f}), "
        f"{result['split']} split {result['split_hash']}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def _place(data: str | None) -> str | None:
    """A folder may have the name of a data set: then it is meant, as `tgnn train --data` has it."""
    from tgnn.data.catalog import CATALOG

    return str(Path(data).resolve()) if data is not None and data in CATALOG and Path(data).exists() else data
