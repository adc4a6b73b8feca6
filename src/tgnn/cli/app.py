"""The ``tgnn`` command: global options, error handling and exit codes."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tgnn import __version__
from tgnn.cli import console, data
from tgnn.cli.bench import bench
from tgnn.cli.compare import compare
from tgnn.cli.console import err, error_message, fail, print_json_error, set_up_logging
from tgnn.cli.doctor import doctor
from tgnn.cli.models import models
from tgnn.cli.predict import evaluate, predict
from tgnn.cli.report import report
from tgnn.cli.reproduce import reproduce
from tgnn.cli.train import train
from tgnn.cli.tune import tune

_GLOBAL_OPTIONS = ("--quiet", "-q", "--verbose", "-v", "--log-file", "--version")


class _CommandGroup(TyperGroup):
    """Command group that confirms Ctrl-C and explains where global options go."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # commands with a message of their own raise typer.Exit instead
            err.print("interrupted")
            raise
        except Exception as error:  # click.NoSuchOption, whose module depends on the version of typer
            option = getattr(error, "option_name", None)
            command = getattr(getattr(error, "ctx", None), "info_name", "")
            if option not in _GLOBAL_OPTIONS:
                if hasattr(error, "format_message"):  # wrong usage, which typer prints to standard error
                    _name_value(error)
                    print_json_error(error.format_message())
                raise
            raise typer.BadParameter(f"{option} goes before the command: tgnn {option} {command} ...", ctx) from None


def _name_value(error: Any) -> None:
    """Add the value to a message of typer that does not repeat it: "Input should be a valid number, ..."."""
    from pydantic import ValidationError

    message = str(getattr(error, "message", ""))
    if isinstance(error.__cause__, ValidationError) and message.startswith("Input should"):
        value = error.__cause__.errors()[0]["input"]
        allowed = message.removeprefix("Input should ").partition(", unable to parse")[0]
        error.message = f"the value is {str(value)!r}, but it should {allowed}."


app = typer.Typer(
    name="tgnn",
    cls=_CommandGroup,
    help="Train, tune and evaluate graph neural networks with high-order pooling, and reproduce the paper.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (train, evaluate, predict, compare, tune, reproduce, report, bench, doctor, models):
    app.command()(command)
app.add_typer(data.app, name="data")


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"tgnn {__version__}")
        raise typer.Exit


@app.callback()
def global_options(
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only results and errors.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print debug messages and tracebacks.")] = False,
    log_file: Annotated[Path | None, typer.Option(help="Also write all messages with timestamps to this file.")] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of all commands. They go before the command."""
    set_up_logging(int(verbose) - int(quiet), log_file)


def main() -> None:
    """Run the command line.

    Exit codes: 0 success, 1 failure, 2 invalid usage, data or files, 70 unexpected error (a bug), 75 lost connection to
    another process of a distributed run, 130 interrupted.
    """
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # as in `tgnn models | head -1`
        _discard_output()
        sys.exit(1)
    except (ValueError, OSError, ImportError, MemoryError) as error:  # errors that a user can fix; all others are bugs
        if console.verbosity > 0:
            traceback.print_exc()
        if isinstance(error, OSError) and error.filename is None:
            _discard_output()
        fail(error_message(error))
        sys.exit(getattr(error, "exit_code", 2))
    except SystemExit:
        raise
    except BaseException as error:  # also a panic of polars, which is not an Exception
        if console.verbosity > 0:
            traceback.print_exc()
        fail(f"unexpected {type(error).__name__}: {str(error)[:200]}. {_write_traceback()}")
        sys.exit(70)


def _discard_output() -> None:
    """Discard what cannot be written to standard output, so that Python does not fail again when it exits."""
    with contextlib.suppress(OSError, ValueError):  # ValueError: it is not a file, as in tests
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write_traceback() -> str:
    """Write the traceback of the current error to a file, and return a sentence that names it."""
    try:
        descriptor, path = tempfile.mkstemp(prefix="tgnn-error-", suffix=".txt")
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(f"tgnn {__version__}, python {sys.version}\n{' '.join(sys.argv)}\n\n{traceback.format_exc()}")
    except OSError:
        return "Show the traceback with `tgnn -v`. Please report this bug."
    return f"The traceback is in {path}. Please report this bug."
