"""``tgnn``: what all verbs share."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tgnn import __version__
from tgnn.cli import console, data
from tgnn.cli.console import err, fail, in_words, set_up_logging
from tgnn.cli.doctor import doctor
from tgnn.cli.models import models
from tgnn.cli.predict import evaluate, predict
from tgnn.cli.report import report
from tgnn.cli.reproduce import reproduce
from tgnn.cli.train import train
from tgnn.cli.tune import tune

_BEFORE_THE_VERB = ("--quiet", "-q", "--verbose", "-v", "--log-file", "--version")


class _Verbs(TyperGroup):
    """Says where an option belongs that is given after the verb, and that Ctrl-C was heard."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # those who have more to say raise an exit
            err.print("stopped")
            raise
        except Exception as error:  # of click's class, which typer has in one place or another
            option, verb = getattr(error, "option_name", None), getattr(getattr(error, "ctx", None), "info_name", "")
            if option not in _BEFORE_THE_VERB:
                raise
            raise typer.BadParameter(f"{option} goes before the verb: tgnn {option} {verb} ...", ctx) from None


app = typer.Typer(
    name="tgnn",
    cls=_Verbs,
    help="High-order pooling for graph neural networks: data, training, prediction, the paper's tables.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb in (train, evaluate, predict, tune, reproduce, report, doctor, models):
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
        fail(in_words(error))
        sys.exit(getattr(error, "exit_code", 2))
