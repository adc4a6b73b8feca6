"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tgnn.data.tables.schema import ReadOptions

NameOrPath = Annotated[str, typer.Argument(metavar="NAME|PATH", help="Name of a data set, or path of your own data.")]
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")]
Root = Annotated[
    Path | None,
    typer.Option(envvar="TGNN_DATA", help="Folder to search for data files before the cache and the network."),
]
Offline = Annotated[bool, typer.Option("--offline", help="Do not access the network.")]
Device = Annotated[str, typer.Option(help="Device: auto, cpu, cuda, cuda:1 or mps.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]
JsonArray = Annotated[bool, typer.Option("--json", help="Print the result as one JSON array.")]
Target = Annotated[
    str | None,
    typer.Option("--target", help="Column to predict in your own tables, e.g. churn. Separate several by commas."),
]
IdColumn = Annotated[
    str | None,
    typer.Option(
        "--id", metavar="COLUMN", help="Column of ids in your own tables, e.g. user_id. Default: recognized by name."
    ),
]
TaskOption = Annotated[
    str | None,
    typer.Option(
        "--task",
        metavar="TASK",
        help="classification, multi-label or regression. Default: inferred from the labels of your own tables.",
    ),
]
METRIC_HELP = (
    "accuracy, balanced-accuracy, macro-f1, roc-auc, pr-auc, log-loss, mae, rmse or r2. "
    "Default: accuracy for classification, roc-auc for multi-label, mae for regression."
)


def read_options(target: str | None, id_column: str | None, task: str | None) -> ReadOptions:
    """Convert ``--target``, ``--id`` and ``--task`` to options of the readers of tables and molecules."""
    from tgnn.training.config import make_config

    given = {"target": target, "id": id_column, "task": task}
    return make_config({"data": {key: value for key, value in given.items() if value is not None}}).data.read_options
