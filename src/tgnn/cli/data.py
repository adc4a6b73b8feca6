"""``tgnn data``: list, download, validate and convert data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tgnn.cli.console import fail, print_json, print_rows, print_text
from tgnn.cli.options import (
    Force,
    IdColumn,
    Json,
    JsonArray,
    NameOrPath,
    Offline,
    Root,
    Target,
    TaskOption,
    read_options,
)

app = typer.Typer(help="List, download, validate and convert data sets.", no_args_is_help=True)

_FILES = (".csv", ".tsv", ".parquet", ".gz", ".json", ".yaml", ".pt", ".pkl", ".npy", ".h5", ".zip", ".txt")
"""Suffixes of file formats that cannot be written."""


@app.command("list")
def list_(json: JsonArray = False) -> None:
    """List the data sets of the catalog, and the error-correcting codes."""
    from tgnn.data.catalog import CATALOG
    from tgnn.data.codes import CODES

    if json:
        codes = [
            {"name": name, "title": code.title, "task": "decoding", "n": code.n, "k": code.k, "source": code.source}
            for name, code in CODES.items()
        ]
        print_json([*(_summary(entry) for entry in CATALOG.values()), *codes])
        return
    headers = ("name", "task", "metric", "split", "description")
    rows = [(entry.name, entry.task, entry.metric, entry.default_split, entry.title) for entry in CATALOG.values()]
    rows += [
        (name, "decoding", "bit error rate", "random frames", f"{code.title}; {code.source}")
        for name, code in CODES.items()
    ]
    print_rows(headers, rows, no_wrap=4)


@app.command()
def info(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of a data set (see `tgnn data list`).")],
    json: Json = False,
) -> None:
    """Show task, metric, statistics, license and sources of a data set without loading it."""
    from tgnn.data.load import get_entry

    summary = _summary(get_entry(name))
    if json:
        print_json(summary)
        return
    for key, value in summary.items():
        if isinstance(value, dict):
            value = ", ".join(f"{number:,} {what}" for what, number in value.items())
        elif isinstance(value, list):
            value = "\n".join(value) or "none (installed with the package)"
        for number, line in enumerate(str(value).splitlines()):
            print_text(f"{'' if number else key:<10} {line}")


def _summary(entry: Any) -> dict[str, Any]:
    return {
        **{key: getattr(entry, key) for key in ("name", "title", "task", "metric")},
        "split": entry.default_split,
        "statistics": dict(entry.statistics),
        **{key: getattr(entry, key) for key in ("license", "citation", "official")},
        "sources": [source.name + (f" ({source.differs})" if source.differs else "") for source in entry.sources],
    }


@app.command()
def fetch(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Names of data sets (see `tgnn data list`).")],
    root: Root = None,
    offline: Offline = False,
    json: Json = False,
) -> None:
    """Download and verify data sets, so that later commands need no network."""
    from tgnn.data.dataset_info import statistics
    from tgnn.data.load import get_entry, load

    for name in names:
        get_entry(name)  # check all names before the first download
    loaded: dict[str, Any] = {}
    failed: dict[str, str] = {}
    for name in names:
        try:
            data = load(name, root, offline)
        except (OSError, ValueError, ImportError) as error:  # the other data sets may still be available
            failed[name] = str(error)
            continue
        loaded[name] = {"statistics": statistics(data), "split": str(data.split), **data.info.to_dict()}
        if not json:
            _print_summary(name, data)
    if json:
        print_json(loaded | {name: {"error": reason} for name, reason in failed.items()})
    for reason in failed.values():
        fail(reason)
    if failed:
        raise typer.Exit(1)


def _print_summary(name: str, data: Any) -> None:
    from tgnn.data.dataset_info import statistics

    numbers = ", ".join(f"{value:,} {what}" for what, value in statistics(data).items())
    print_text(f"{name}: {numbers}", style="bold")
    print_text(f"  source  {data.info.source}")
    if data.info.differs:
        print_text(f"  differs {data.info.differs}")
    print_text(f"  split   {getattr(data, 'split', 'none (no labels)')}")


@app.command()
def check(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH", help="Folder of tables or TU files, graph on disk, .npz file, or CSV file of SMILES."
        ),
    ],
    target: Target = None,
    id_column: IdColumn = None,
    task: TaskOption = None,
    json: Json = False,
) -> None:
    """Validate your own data. The report lists its contents, and the file and row of every problem.

    The exit code is 1 if `tgnn train` cannot use the data.
    """
    from tgnn.training.prepare import check_own_data

    report = check_own_data(path, read_options(target, id_column, task))
    if json:
        print_json(report.to_dict())
    else:
        print_text(str(report))
    if not report.ok:
        raise typer.Exit(1)


@app.command()
def convert(
    source: NameOrPath,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A .npz file to write, or a folder for a graph on disk.")],
    target: Target = None,
    id_column: IdColumn = None,
    task: TaskOption = None,
    root: Root = None,
    offline: Offline = False,
    leave_out: Annotated[
        bool,
        typer.Option("--leave-out", help="Leave out edge features and weights, which a graph on disk cannot store."),
    ] = False,
    force: Force = False,
) -> None:
    """Convert a data set to a .npz file, or to a graph on disk.

    A graph on disk is a folder of memory-mapped arrays and may be larger than memory.
    Tables of nodes and edges are converted block by block.
    """
    _check_output(out, force)
    from tgnn.data.convert import convert as write

    options = read_options(target, id_column, task)
    data = write(source, out, root, offline, leave_out=leave_out, overwrite=force, options=options)
    _print_size(out)
    _print_summary(source, data)


@app.command()
def generate(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write.")],
    nodes: Annotated[int, typer.Option(min=1, help="Number of nodes.")] = 2_400_000,
    edges: Annotated[
        int, typer.Option(min=0, help="Approximate number of edges, counting both directions.")
    ] = 124_000_000,
    features: Annotated[int, typer.Option(min=2, help="Number of features per node.")] = 100,
    classes: Annotated[int, typer.Option(min=2, help="Number of classes.")] = 47,
    seed: Annotated[int, typer.Option(min=0, max=2**31, help="Random seed.")] = 0,
    force: Force = False,
) -> None:
    """Generate a large synthetic graph on disk.

    The graph has hubs, communities, and labels that depend on products over neighborhoods.
    The default size is that of ogbn-products. The same options give the same graph.
    """
    if out.suffix == ".npz":
        raise typer.BadParameter(f"{out} must be a folder, not a .npz file", param_hint="OUT")
    _check_output(out, force)
    from tgnn.data import load
    from tgnn.data.on_disk.generate import generate as write

    write(out, nodes, edges, features, classes, seed, overwrite=force)
    _print_size(out)
    _print_summary(out.name, load(out))


def _check_output(out: Path, force: bool) -> None:
    if out.suffix in _FILES:
        raise typer.BadParameter(f"{out} must be a .npz file or a folder", param_hint="OUT")
    if out.exists() and not force:
        raise typer.BadParameter(f"{out} exists; use --force to overwrite it", param_hint="OUT")
    if not out.parent.is_dir():
        raise typer.BadParameter(f"the folder {out.parent} does not exist", param_hint="OUT")


def _print_size(out: Path) -> None:
    files = [out] if out.is_file() else list(out.iterdir())
    size = sum(file.stat().st_size for file in files)
    print_text(f"{out}: {size:,} bytes")


@app.command()
def splits(
    source: NameOrPath,
    seed: Annotated[
        int, typer.Option(min=0, max=2**31, help="Random seed of the split. In a k-fold split, it selects the fold.")
    ] = 0,
    target: Target = None,
    id_column: IdColumn = None,
    task: TaskOption = None,
    root: Root = None,
    offline: Offline = False,
    json: JsonArray = False,
) -> None:
    """List the split protocols of a data set with their sizes and hashes."""
    from tgnn.data import load
    from tgnn.data.dataset_info import explain_missing_labels
    from tgnn.data.splits import protocols

    data = load(source, root, offline, seed=seed, options=read_options(target, id_column, task))
    if getattr(data, "split", None) is None:
        raise ValueError(f"{source} has no labels and cannot be split. {explain_missing_labels(data)}")
    rows = [_split_row(name, draw, seed, data.split) for name, draw in protocols(data).items()]
    if json:
        print_json(rows)
        return
    lines = []
    for row in rows:
        if "impossible" in row:
            lines.append((row["protocol"], "", "", "", "", f"not possible: {row['impossible']}"))
        else:
            sizes = (f"{row[part]:,}" for part in ("train", "val", "test"))
            lines.append((row["protocol"], *sizes, row["hash"], "default" if row["default"] else ""))
    print_rows(("protocol", "train", "val", "test", "hash", ""), lines, no_wrap=5)


def _split_row(name: str, draw: Any, seed: int, default: Any) -> dict[str, Any]:
    try:
        split = draw(seed)
    except ValueError as error:
        return {"protocol": name, "impossible": str(error)}
    sizes = {part: len(getattr(split, part)) for part in ("train", "val", "test")}
    is_default = (split.name, split.hash) == (default.name, default.hash)
    return {"protocol": name, **sizes, "hash": split.hash, "default": is_default}
