"""``tgnn report``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tgnn.cli import console
from tgnn.cli.console import err, out, print_json

if TYPE_CHECKING:
    from tgnn.report.collect import Contents


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUNS...", help="Folders of runs, results and studies, at any depth."),
    ],
    file: Annotated[Path | None, typer.Option("--out", "-o", help="The page to write; by default report.html.")] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Show the page on this machine, fresh while runs go on.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of --serve; 0: any that is free.")] = 8000,
    json: Annotated[bool, typer.Option("--json", help="Print one machine-readable object and nothing else.")] = False,
) -> None:
    """Show runs, results and searches as one page: tables beside the paper's, figures, learning curves.

    Examples: `tgnn report runs`, `tgnn report runs results -o report.html`, `tgnn report runs --serve`.
    """
    if serve:
        if file is not None or json:
            raise typer.BadParameter(
                "a page that is served is not written; leave --out and --json", param_hint="--serve"
            )
        _serve(runs, port)
        return
    from tgnn.report.collect import Reader
    from tgnn.report.render import render
    from tgnn.utils.io import write_text

    file = file or Path("report.html")
    if file.is_dir():
        raise typer.BadParameter(
            f"{file} is a folder; give the page a name, such as {file / 'report.html'}", param_hint="--out"
        )
    contents = Reader(runs).read()
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, render(contents))
    _tell(contents, file, json)


def _tell(contents: Contents, file: Path, json: bool) -> None:
    if json:
        print_json({"report": str(file), **contents.counts})
        return
    for name, reason in _damage(contents):
        err.print(f"damaged: {name}: {reason}", markup=False, highlight=False, soft_wrap=True)
    one = {"results": "result", "studies": "study", "runs": "run"}
    found = {name: number for name, number in contents.counts.items() if number}
    counts = ", ".join(f"{number} {one.get(name, name) if number == 1 else name}" for name, number in found.items())
    out.print(f"{file}: {counts}", markup=False, highlight=False, soft_wrap=True)


def _damage(contents: Contents) -> list[tuple[str, str]]:
    runs = [(d.run.name, d.run.reason) for d in contents.details if d.run.state == "damaged"]
    return [*contents.damaged, *runs]


def _serve(runs: list[Path], port: int) -> None:
    from tgnn.report.serve import Server

    with Server(runs, port) as server:
        if console.verbosity >= 0:
            err.print(f"{server.address} (Ctrl-C ends)", markup=False, highlight=False, soft_wrap=True)
        server.serve_forever()
