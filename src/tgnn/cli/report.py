"""``tgnn report``: create a page of results and runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tgnn.cli import console
from tgnn.cli.console import err, print_json, print_text


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="PATH", help="Folders with runs, results and studies, searched at any depth."),
    ],
    file: Annotated[Path | None, typer.Option("--out", "-o", help="HTML file to write. Default: report.html.")] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve the page on this machine and update it while runs are training.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port for --serve. Use 0 for any free port.")] = 8000,
    json: Annotated[
        bool, typer.Option("--json", help="Print the numbers of runs, results and studies as one JSON object.")
    ] = False,
) -> None:
    """Create an HTML page of runs, results and hyperparameter searches.

    The page shows figures, learning curves, and tables that include the values of the paper. It needs no network.

    Examples: `tgnn report runs`, `tgnn report runs results -o report.html`, `tgnn report runs --serve`.
    """
    if serve:
        if file is not None or json:
            raise typer.BadParameter("--serve writes no file; leave out --out and --json", param_hint="--serve")
        _serve(runs, port)
        return
    from tgnn.report.collect import ReportReader
    from tgnn.report.render import render
    from tgnn.utils.io import write_text

    file = file or Path("report.html")
    if file.is_dir():
        raise typer.BadParameter(
            f"{file} is a folder; give the name of a file, such as {file / 'report.html'}", param_hint="--out"
        )
    contents = ReportReader(runs).read()
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, render(contents))
    if json:
        print_json({"report": str(file), **contents.counts})
        return
    for name, reason in contents.damaged:
        print_text(f"damaged: {name}: {reason}", err)
    one = {"results": "result", "studies": "study", "runs": "run"}
    shown = {name: number for name, number in contents.counts.items() if number}
    counts = ", ".join(f"{number} {one.get(name, name) if number == 1 else name}" for name, number in shown.items())
    print_text(f"{file}: {counts}")


def _serve(runs: list[Path], port: int) -> None:
    from tgnn.report.serve import ReportServer

    with ReportServer(runs, port) as server:
        if console.verbosity >= 0:
            print_text(f"serving the report at {server.address} (press Ctrl-C to stop)", err)
        server.serve_forever()
