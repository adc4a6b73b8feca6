"""``tgnn``: what all verbs share."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer

from tgnn import __version__
from tgnn.cli import console, data
from tgnn.cli.console import fail, set_up_logging
from tgnn.cli.doctor import doctor
from tgnn.cli.models import models
from tgnn.cli.predict import evaluate, predict
from tgnn.cli.report import report
from tgnn.cli.train import train

app = typer.Typer(
    name="tgnn",
    help="High-order pooling for graph neural networks: data, training, prediction, the paper's tables.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb in (train, evaluate, predict, report, doctor, models):
    app.command()(verb)
app.add_typer(data.app, name="data")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tgnn {__version__}")
        raise typer.Exit


@app.callback()
def shared(
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but results and errors.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say more; with a traceback for errors.")] = False,
    log_file: Annotated[Path | None, typer.Option(help="Also write everything, with times, to this file.")] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options that go before the verb."""
    set_up_logging(int(verbose) - int(quiet), log_file)


def main() -> None:
    """Runs a verb. Exit codes: 0 good, 1 failed, 2 wrong use, 130 interrupted."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)
    except (ValueError, OSError, ImportError, MemoryError) as error:  # what a user can mend; others are our mistakes
        if console.verbosity > 0:
            traceback.print_exc()
        fail(str(error) or type(error).__name__)
        sys.exit(getattr(error, "exit_code", 2))
