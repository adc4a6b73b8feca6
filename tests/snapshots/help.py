"""The ``--help`` page of every command, as plain text of 100 columns."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any
from unittest import mock

import typer.rich_utils
from typer.main import get_command

from tgnn.cli.app import app


def current_help() -> dict[str, str]:
    """Map each command, such as ``data-list``, to the text of its help page."""
    return {"-".join(path) or "tgnn": _render(command, path) for path, command in _commands(get_command(app), [])}


def _commands(command: Any, path: list[str]) -> Iterator[tuple[list[str], Any]]:
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from _commands(child, [*path, name])


def _render(command: Any, path: list[str]) -> str:
    output = io.StringIO()
    patches = {"MAX_WIDTH": 100, "COLOR_SYSTEM": None, "FORCE_TERMINAL": False}
    with mock.patch.multiple(typer.rich_utils, **patches), mock.patch("sys.stdout", output):
        context = command.make_context(" ".join(["tgnn", *path]), [], resilient_parsing=True)
        command.format_help(context, context.make_formatter())
    return "".join(f"{line.rstrip()}\n" for line in output.getvalue().strip().splitlines())
