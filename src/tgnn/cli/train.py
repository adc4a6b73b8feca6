"""``tgnn train``."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tgnn.cli import console
from tgnn.cli.console import err, error_message, out, print_json
from tgnn.cli.resolve import resolve_config

if TYPE_CHECKING:
    from tgnn.training.config import Config
    from tgnn.training.distributed.world import World

_MODEL, _TRAIN, _RUN = "Model", "Training", "Run"


def train(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A name of `tgnn data list`; none: the recipe's.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Your own data instead: a folder of tables, a .npz, ...")] = None,
    root: Annotated[
        Path | None, typer.Option(envvar="TGNN_DATA", help="Folder with files, looked into before cache and network.")
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Never touch the network.")] = False,
    split: Annotated[str | None, typer.Option(help="Split protocol, of `tgnn data splits NAME`.")] = None,
    model: Annotated[
        str | None, typer.Option(help="A name of `tgnn models`; by default tgnn.", rich_help_panel=_MODEL)
    ] = None,
    rank: Annotated[
        int | None, typer.Option(min=0, help="Rank of the products; 0: sums only.", rich_help_panel=_MODEL)
    ] = None,
    hidden: Annotated[int | None, typer.Option(help="Width of hidden layers.", rich_help_panel=_MODEL)] = None,
    layers: Annotated[int | None, typer.Option(help="Number of layers.", rich_help_panel=_MODEL)] = None,
    dropout: Annotated[
        float | None, typer.Option(help="Share of hidden entries dropped.", rich_help_panel=_MODEL)
    ] = None,
    lr: Annotated[float | None, typer.Option(help="Step size.", rich_help_panel=_TRAIN)] = None,
    epochs: Annotated[int | None, typer.Option(help="At most so many.", rich_help_panel=_TRAIN)] = None,
    patience: Annotated[
        int | None, typer.Option(help="Stop after so many epochs without a better validation.", rich_help_panel=_TRAIN)
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Graphs, or seed nodes, in a batch.", rich_help_panel=_TRAIN)
    ] = None,
    sample: Annotated[
        str | None, typer.Option(help="Neighbours sampled at each step away, as 10,5; -1: all.", rich_help_panel=_TRAIN)
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**31, help="Of weights, batches and split.", rich_help_panel=_TRAIN)
    ] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda, cuda:1, mps.", rich_help_panel=_TRAIN)] = None,
    precision: Annotated[str | None, typer.Option(help="float32, bfloat16 or float16.", rich_help_panel=_TRAIN)] = None,
    track: Annotated[
        list[str] | None,
        typer.Option(help="Also show the run in tensorboard, mlflow or wandb.", rich_help_panel=_RUN),
    ] = None,
    recipe: Annotated[Path | None, typer.Option(help="A YAML file of settings.", rich_help_panel=_RUN)] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any setting, as optimizer.lr=0.1.", rich_help_panel=_RUN),
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="Seeds and splits to average over.", rich_help_panel=_RUN)] = 1,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Runs at once; by default one per core.", rich_help_panel=_RUN)
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(min=1, help="Processes that share every batch of graphs or --sample.", rich_help_panel=_RUN),
    ] = None,
    folder: Annotated[Path | None, typer.Option("--out", help="Folder of the run.", rich_help_panel=_RUN)] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Go on with a run that was stopped.", rich_help_panel=_RUN)
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the resolved settings and stop.", rich_help_panel=_RUN)
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print one machine-readable object and nothing else.", rich_help_panel=_RUN)
    ] = False,
) -> None:
    """Train a model, watch it learn, and get a number you can trust.

    Examples: `tgnn train cora`, `tgnn train --data my_folder --rank 16`, `tgnn train zinc --runs 4 --jobs 2`.
    """
    if resume is not None:
        typed = {key for key in ctx.params if getattr(ctx.get_parameter_source(key), "name", "") == "COMMANDLINE"}
        if typed - {"resume", "jobs", "processes", "json"}:
            raise typer.BadParameter("a run goes on with the settings it has; give nothing else", param_hint="--resume")
        with _among_others() as world:
            _go_on(resume, jobs, processes, json, world)
        return
    if name is not None and data is not None:
        raise typer.BadParameter("give NAME or --data, not both", param_hint="NAME")
    if folder is not None:
        check_place(folder)
    flags = {
        "data.root": root and str(root),
        "data.offline": offline or None,
        "data.split": split,
        "model.rank": rank,
        "model.hidden_channels": hidden,
        "model.num_layers": layers,
        "model.dropout": dropout,
        "optimizer.lr": lr,
        "train.epochs": epochs,
        "train.patience": patience,
        "train.batch_size": batch_size,
        "train.num_neighbors": sample,
        "train.seed": seed,
        "train.device": device,
        "train.precision": precision,
        "train.track": tuple(track) if track else None,
    }
    changes = {key: value for key, value in flags.items() if value is not None}
    for text in settings or []:
        key, value = key_and_value(text)
        changes[key] = value
    with _among_others() as world:
        config = resolve_config(name or (str(data.resolve()) if data else None), model, recipe, changes)
        if dry_run:
            _print_config(config, json)
            return
        place = folder or Path("runs") / f"{Path(config.data.name).name}-{config.model.name}-{_when(world)}"
        _run(config, runs, place, jobs, processes, False, json, world)


def check_place(folder: Path) -> None:
    """Whether runs can be written there: said before anything is."""
    there = next(part for part in (folder, *folder.parents) if part.exists())
    if not there.is_dir():
        raise typer.BadParameter(f"{there} is a file, and a run needs a folder; choose another", param_hint="--out")
    if not os.access(there, os.W_OK | os.X_OK):
        raise typer.BadParameter(f"{there} cannot be written to; choose another folder", param_hint="--out")


def key_and_value(text: str) -> tuple[str, Any]:
    from tgnn.utils.yaml import parse_yaml

    key, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"{text!r} is not KEY=VALUE, such as optimizer.lr=0.1", param_hint="--set")
    try:
        return key.strip(), parse_yaml(value)
    except ValueError:
        raise typer.BadParameter(f"{value!r} cannot be read as a value", param_hint="--set") from None


_PRIVATE = ("data.root", "data.offline", "data.name", "model.name")
"""Of a machine, or told in words of their own."""


def public(settings: Iterable[str]) -> list[str]:
    """Those of ``--set`` that a command for others has, as they were typed."""
    return [text for text in settings if text.partition("=")[0].strip() not in _PRIVATE]


def _print_config(config: Config, json: bool) -> None:
    plain = config.model_dump(mode="json")
    if json:
        print_json(plain | {"hash": config.hash})
        return
    import yaml

    out.print(yaml.safe_dump(plain, sort_keys=False), markup=False, highlight=False, end="")


def _go_on(folder: Path, jobs: int | None, processes: int | None, json: bool, world: World | None) -> None:
    from tgnn.training.config import make_config
    from tgnn.training.repeated_runs import read_plan
    from tgnn.training.train import read_config

    def found() -> tuple[dict[str, Any], int]:
        plan = read_plan(folder)
        config, runs = plan if plan is not None else (read_config(folder), 1)
        return config.model_dump(mode="json"), runs

    settings, runs = found() if world is None else world.same(found)  # others may not have the folder
    _run(make_config(settings), runs, folder, jobs, processes, True, json, world)


def _run(
    config: Config,
    runs: int,
    folder: Path,
    jobs: int | None,
    processes: int | None,
    resume: bool,
    json: bool,
    world: World | None,
) -> None:
    if runs > 1 and ((world is not None and world.size > 1) or (processes or 1) > 1):
        raise typer.BadParameter("several processes train one run; of several runs, --jobs are trained at once")
    if world is None and (processes or 1) > 1:
        _start(processes or 1, folder, resume)
        return
    from tgnn.cli.progress import watch_many, watch_one
    from tgnn.training.distributed.world import SINGLE_PROCESS
    from tgnn.training.interrupts import Interrupted
    from tgnn.training.repeated_runs import train_repeated
    from tgnn.training.train import train as train_one

    try:
        if runs == 1:
            with watch_one(config, quiet=json or console.verbosity < 0) as tell:
                result = train_one(config, folder, resume, tell, world or SINGLE_PROCESS)
        else:
            with watch_many(config, runs, quiet=json or console.verbosity < 0) as tell_all:
                result = train_repeated(config, runs, folder, jobs, resume, tell_all)
    except Interrupted:
        err.print(f"stopped; go on with: tgnn train --resume {folder}", markup=False, highlight=False, soft_wrap=True)
        if world is not None:
            raise  # together with the others
        raise typer.Exit(130) from None
    except OSError as error:
        if not (folder / "config.yaml").exists():
            raise
        raise OSError(
            f"{error_message(error)}\nwhat was saved before is kept; go on with: tgnn train --resume {folder}"
        ) from error
    if world is not None and not world.first:
        return
    from tgnn.cli.results import log, show

    log(result, folder)
    if json:
        print_json({**result, "folder": str(folder)})
        return
    show(result, folder)


# ---- several processes -----------------------------------------------------------------------------------------


def _start(processes: int, folder: Path, resume: bool) -> None:
    """The same command in several processes, which see that they are several."""
    from tgnn.training.distributed.launch import launch

    words = [*sys.argv[1:], *([] if resume else ["--out", str(folder)])]
    code = launch(work, words, processes)
    if code == 130 and not (folder / "config.yaml").exists():  # else the first process has said how to go on
        err.print("stopped before the processes had begun to train; nothing was saved", markup=False)
    raise typer.Exit(code)


def work(words: list[str]) -> int:
    """One of them. Mistakes of the user's are results, which end all; who ends otherwise is started again."""
    from tgnn.cli.app import main

    sys.argv = ["tgnn", *words]
    try:
        main()
    except SystemExit as end:
        if end.code not in (0, 1, 2):
            raise
        return int(end.code)
    return 0


@contextlib.contextmanager
def _among_others() -> Iterator[World | None]:
    """The processes that torchrun has started; ``None``: it has not. One on each machine speaks."""
    if "RANK" not in os.environ:
        yield None
        return
    from tgnn.training.distributed.rendezvous import joined
    from tgnn.training.interrupts import Interrupted

    if os.environ.get("LOCAL_RANK", "0") != "0":
        err.quiet = out.quiet = logging.getLogger("tgnn").disabled = True
    try:
        with joined() as world:
            yield world
    except Interrupted:
        raise typer.Exit(130) from None


def _when(world: World | None) -> str:
    """In the name of a folder: the time, or what torchrun calls a job, which is the same when it starts it again."""
    return world.job if world is not None and world.job is not None else time.strftime("%Y%m%d-%H%M%S")
