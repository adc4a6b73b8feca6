"""``tgnn data``: what there is, where it comes from, what is odd about yours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tgnn.cli.console import fail, out, print_json, print_table

app = typer.Typer(help="Data sets by name, and your own from a folder.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="A name of `tgnn data list`.")]
NameOrPath = Annotated[str, typer.Argument(metavar="NAME|PATH", help="A name of `tgnn data list`, or your own data.")]
Root = Annotated[
    Path | None, typer.Option(envvar="TGNN_DATA", help="Folder with files, looked into before cache and network.")
]
Offline = Annotated[bool, typer.Option("--offline", help="Never touch the network.")]
Json = Annotated[bool, typer.Option("--json", help="Print one machine-readable object and nothing else.")]
Force = Annotated[bool, typer.Option("--force", help="Write over what exists.")]
_FILES = (".csv", ".tsv", ".parquet", ".gz", ".json", ".yaml", ".pt", ".pkl", ".npy", ".h5", ".zip", ".txt")
"""Ends of names of files that are not written."""


@app.command("list")
def list_(json: Json = False) -> None:
    """All data sets of the catalog."""
    from tgnn.data.catalog import CATALOG

    if json:
        print_json([_summary(entry) for entry in CATALOG.values()])
        return
    from rich.table import Table

    table = Table("name", "predicts", "metric", "split", "what it is", box=None, pad_edge=False)
    for column in table.columns[:4]:
        column.no_wrap = True
    for entry in CATALOG.values():
        table.add_row(entry.name, f"{entry.level} {entry.target}", entry.metric, entry.split, entry.title)
    print_table(table)


@app.command()
def info(name: Name, json: Json = False) -> None:
    """Everything that is known of a data set, without loading it."""
    from tgnn.data.load import get_entry

    entry = get_entry(name)
    if json:
        print_json(_summary(entry))
        return
    for key, value in _summary(entry).items():
        if isinstance(value, dict):
            value = ", ".join(f"{number:,} {what}" for what, number in value.items())
        elif isinstance(value, list):
            value = "\n".join(value) or "none: it comes with what is installed"
        first, *rest = str(value).splitlines()
        out.print(f"{key:<10} {first}", highlight=False, markup=False, soft_wrap=True)
        for line in rest:
            out.print(f"{'':<10} {line}", highlight=False, markup=False, soft_wrap=True)


def _summary(entry: Any) -> dict[str, Any]:
    sources = [source.name + (f" ({source.differs})" if source.differs else "") for source in entry.sources]
    return {
        "name": entry.name,
        "title": entry.title,
        "task": f"{entry.level} {entry.target}",
        "metric": entry.metric,
        "split": entry.split,
        "facts": dict(entry.facts),
        "licence": entry.licence,
        "citation": entry.citation,
        "official": entry.official,
        "sources": sources,
    }


@app.command()
def fetch(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of `tgnn data list`.")],
    root: Root = None,
    offline: Offline = False,
    json: Json = False,
) -> None:
    """Get data sets and check them, so that later commands need no network."""
    from tgnn.data.dataset_info import statistics
    from tgnn.data.load import get_entry, load

    for name in names:
        get_entry(name)  # all names before the first download
    found: dict[str, Any] = {}
    failed: dict[str, str] = {}
    for name in names:
        try:
            data = load(name, root, offline)
        except (OSError, ValueError, ImportError) as error:  # the others may still be had
            failed[name] = str(error)
            continue
        found[name] = {"statistics": statistics(data), "split": str(data.split), **data.info.to_dict()}
        if not json:
            _tell(name, data)
    if json:
        print_json(found | {name: {"error": reason} for name, reason in failed.items()})
    for reason in failed.values():
        fail(reason)
    if failed:
        raise typer.Exit(1)


def _tell(name: str, data: Any) -> None:
    from tgnn.data.dataset_info import statistics

    numbers = ", ".join(f"{value:,} {what}" for what, value in statistics(data).items())
    out.print(f"{name}: {numbers}", style="bold", markup=False, highlight=False, soft_wrap=True)
    out.print(f"  source  {data.info.source}", markup=False, highlight=False, soft_wrap=True)
    if data.info.differs:
        out.print(f"  differs {data.info.differs}", markup=False, highlight=False, soft_wrap=True)
    out.print(
        f"  split   {getattr(data, 'split', 'none: it has no labels')}", markup=False, highlight=False, soft_wrap=True
    )


@app.command()
def check(
    path: Annotated[
        Path, typer.Argument(help="A folder of tables, a graph on disk, a .npz, a folder of TU files, a CSV of SMILES.")
    ],
    json: Json = False,
) -> None:
    """What is in your data, and what is odd about it, with row numbers. Exit code 1 if it cannot be used."""
    from tgnn.data.readers.detect import check_path

    report = check_path(path)
    if json:
        print_json(report.to_dict())
    else:
        out.print(str(report), markup=False, highlight=False, soft_wrap=True)
    if not report.ok:
        raise typer.Exit(1)


@app.command()
def convert(
    source: NameOrPath,
    target: Annotated[Path, typer.Argument(help="What to write: a .npz, or a folder for a graph that stays on disk.")],
    root: Root = None,
    offline: Offline = False,
    leave_out: Annotated[
        bool,
        typer.Option("--leave-out", help="To a folder: without features and weights of edges, which it cannot have."),
    ] = False,
    force: Force = False,
) -> None:
    """Write a data set as one .npz that loads fast, or as a folder that is read where it lies.

    A graph in a folder may be larger than memory. Tables of nodes and edges are written to it block by block.
    """
    _check_target(target, force)
    from tgnn.data.convert import convert as write

    data = write(source, target, root, offline, leave_out=leave_out, overwrite=force)
    _tell_size(target)
    _tell(source, data)


@app.command()
def generate(
    target: Annotated[Path, typer.Argument(help="The folder to write.")],
    nodes: Annotated[int, typer.Option(min=1, help="How many nodes.")] = 2_400_000,
    edges: Annotated[int, typer.Option(min=0, help="About how many edges, counted in both directions.")] = 124_000_000,
    features: Annotated[int, typer.Option(min=2, help="Features of a node.")] = 100,
    classes: Annotated[int, typer.Option(min=2, help="Classes to tell apart.")] = 47,
    seed: Annotated[int, typer.Option(min=0, max=2**31, help="Other seeds give other graphs.")] = 0,
    force: Force = False,
) -> None:
    """Write a large graph to try things on: hubs, groups, and labels that are products over neighbours.

    By default it is as large as ogbn-products, and the same with the same options. It stays on disk.
    """
    if target.suffix == ".npz":
        raise typer.BadParameter(f"{target} must name a folder, not a .npz", param_hint="TARGET")
    _check_target(target, force)
    from tgnn.data import load
    from tgnn.data.on_disk.generate import generate as write

    write(target, nodes, edges, features, classes, seed, overwrite=force)
    _tell_size(target)
    _tell(target.name, load(target))


def _check_target(target: Path, force: bool) -> None:
    if target.suffix in _FILES:
        raise typer.BadParameter(f"{target} must end in .npz, or name a folder", param_hint="TARGET")
    if target.exists() and not force:
        raise typer.BadParameter(f"{target} exists; give --force to write over it", param_hint="TARGET")
    if not target.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {target.parent}", param_hint="TARGET")


def _tell_size(target: Path) -> None:
    files = [target] if target.is_file() else list(target.iterdir())
    size = sum(file.stat().st_size for file in files)
    out.print(f"{target}: {size:,} bytes", markup=False, highlight=False, soft_wrap=True)


@app.command()
def splits(
    source: NameOrPath,
    seed: Annotated[int, typer.Option(min=0, max=2**31, help="To draw with; for folds, the number of the fold.")] = 0,
    root: Root = None,
    offline: Offline = False,
    json: Json = False,
) -> None:
    """The split protocols that a data set allows, with their sizes and hashes."""
    from tgnn.data import load
    from tgnn.data.split_protocols import protocols

    data = load(source, root, offline, seed=seed)
    ways = protocols(data)
    if not ways:
        raise ValueError(f"{source} has no labels, so there is nothing to split by")
    rows = [_row(name, draw, seed, data.split) for name, draw in ways.items()]
    if json:
        print_json(rows)
        return
    from rich.table import Table

    table = Table("protocol", "train", "val", "test", "hash", "", box=None, pad_edge=False)
    for column in table.columns[:5]:
        column.no_wrap = True
    for row in rows:
        if "impossible" in row:
            table.add_row(row["protocol"], "", "", "", "", f"not possible: {row['impossible']}")
        else:
            sizes = (f"{row[part]:,}" for part in ("train", "val", "test"))
            table.add_row(row["protocol"], *sizes, row["hash"], "default" if row["default"] else "")
    print_table(table)


def _row(name: str, draw: Any, seed: int, default: Any) -> dict[str, Any]:
    try:
        split = draw(seed)
    except ValueError as error:
        return {"protocol": name, "impossible": str(error)}
    sizes = {part: len(getattr(split, part)) for part in ("train", "val", "test")}
    is_default = (split.name, split.hash) == (default.name, default.hash)
    return {"protocol": name, **sizes, "hash": split.hash, "default": is_default}
