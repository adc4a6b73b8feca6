"""``tgnn train``: parse the options, call :func:`tgnn.train`, print the result."""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tgnn.cli import console
from tgnn.cli.console import err, error_message, out, print_json, print_text
from tgnn.cli.options import METRIC_HELP, IdColumn, Offline, Root, Target, TaskOption

if TYPE_CHECKING:
    from tgnn.training.config import Config
    from tgnn.training.distributed.world import World

_ModelOption = partial(typer.Option, rich_help_panel="Model")
_TrainingOption = partial(typer.Option, rich_help_panel="Training")
_RunOption = partial(typer.Option, rich_help_panel="Run")


def train(
    ctx: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="Name of a data set (see `tgnn data list`). Default: the data set of the recipe."
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Path of your own data instead of NAME, e.g. a folder of tables, a .npz file or an alist file."
        ),
    ] = None,
    root: Root = None,
    offline: Offline = False,
    split: Annotated[str | None, typer.Option(help="Split protocol (see `tgnn data splits NAME`).")] = None,
    target: Target = None,
    id_column: IdColumn = None,
    task: TaskOption = None,
    model: Annotated[
        str | None,
        _ModelOption(
            help="Name of a model (see `tgnn models`), or auto for the best of several models on the validation set. "
            "Default: tgnn."
        ),
    ] = None,
    rank: Annotated[
        int | None, _ModelOption(min=0, help="CP rank of the product branch. Use 0 to remove the branch.")
    ] = None,
    hidden: Annotated[int | None, _ModelOption(help="Number of hidden channels of each layer.")] = None,
    layers: Annotated[int | None, _ModelOption(help="Number of layers.")] = None,
    dropout: Annotated[float | None, _ModelOption(help="Dropout probability of hidden channels.")] = None,
    lr: Annotated[float | None, _TrainingOption(help="Learning rate of the optimizer.")] = None,
    epochs: Annotated[int | None, _TrainingOption(help="Maximum number of epochs.")] = None,
    patience: Annotated[
        int | None, _TrainingOption(help="Stop after this many epochs without improvement on the validation set.")
    ] = None,
    batch_size: Annotated[int | None, _TrainingOption(help="Number of graphs, or of seed nodes, per batch.")] = None,
    sample: Annotated[
        str | None, _TrainingOption(help="Number of neighbors to sample per hop, e.g. 10,5. Use -1 for all.")
    ] = None,
    metric: Annotated[
        str | None,
        _TrainingOption(
            help="Metric of validation and test, which selects the best epoch unless train.select_by=loss: "
            + METRIC_HELP
        ),
    ] = None,
    class_weight: Annotated[
        str | None,
        _TrainingOption(
            metavar="none|balanced",
            help="Weight classes equally in the loss, or inversely to their frequencies. Default: none.",
        ),
    ] = None,
    calibrate: Annotated[
        bool,
        _TrainingOption("--calibrate", help="Calibrate probabilities by temperature scaling on the validation set."),
    ] = False,
    baselines: Annotated[
        bool | None,
        _TrainingOption(
            "--baselines/--no-baselines",
            help="Score two baselines on the same split: the majority class or mean, and the features without the "
            "graph. Default: for your own data.",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        _TrainingOption(min=0, max=2**31, help="Random seed for initialization, shuffling and splitting."),
    ] = None,
    device: Annotated[str | None, _TrainingOption(help="Device: auto, cpu, cuda, cuda:1 or mps.")] = None,
    precision: Annotated[
        str | None, _TrainingOption(help="Precision of training: float32, or autocast to bfloat16 or float16.")
    ] = None,
    track: Annotated[list[str] | None, _RunOption(help="Also log the run to tensorboard, mlflow or wandb.")] = None,
    recipe: Annotated[Path | None, _RunOption(help="YAML file with hyperparameters and options.")] = None,
    overrides: Annotated[
        list[str] | None,
        _RunOption("--set", metavar="KEY=VALUE", help="Set any hyperparameter or option, e.g. optimizer.lr=0.1."),
    ] = None,
    runs: Annotated[int, _RunOption(min=1, max=100_000, help="Number of runs with different seeds and splits.")] = 1,
    jobs: Annotated[
        int | None, _RunOption(min=1, help="Number of runs to train in parallel. Default: number of cores.")
    ] = None,
    processes: Annotated[
        int | None,
        _RunOption(min=1, help="Number of processes for data-parallel training. Each batch is split across them."),
    ] = None,
    folder: Annotated[
        Path | None, _RunOption("--out", help="Folder to write the run to. Default: runs/<data>-<model>-<time>.")
    ] = None,
    resume: Annotated[
        Path | None,
        _RunOption(
            metavar="RUN",
            help="Continue an interrupted run, or train a finished one for more --epochs. If its data was moved, give "
            "the new path with --data.",
        ),
    ] = None,
    dry_run: Annotated[bool, _RunOption("--dry-run", help="Print the resolved configuration and exit.")] = False,
    json: Annotated[bool, _RunOption("--json", help="Print the result as one JSON object.")] = False,
) -> None:
    """Train a model, select the best epoch on the validation set, and report the test metric.

    Examples: `tgnn train cora`, `tgnn train --data my_folder --rank 16`, `tgnn train zinc --runs 4 --jobs 2`.
    """
    if resume is not None:
        typed = {key for key in ctx.params if getattr(ctx.get_parameter_source(key), "name", "") == "COMMANDLINE"}
        if typed - {"resume", "data", "jobs", "processes", "json", "epochs", "patience"}:
            raise typer.BadParameter(
                "A run continues with its own configuration. Only --epochs and --patience can be changed, e.g. tgnn "
                "train --resume RUN --epochs 200. If its data was moved, give the new path with --data.",
                param_hint="--resume",
            )
        with _join_torchrun() as world:
            config, runs = _read_configuration(resume, data, epochs, patience, world)
            changes = {"--data": data, "--epochs": epochs, "--patience": patience}
            words = [str(word) for flag, value in changes.items() if value is not None for word in (flag, value)]
            _train(config, runs, resume, jobs, processes, True, json, world, words)
        return
    if name is not None and data is not None:
        raise typer.BadParameter("Give NAME or --data, not both.", param_hint="NAME")
    if folder is not None:
        check_output_folder(folder)
    flags = {
        "data.root": root and str(root),
        "data.offline": offline or None,
        "data.split": split,
        "data.target": target,
        "data.id": id_column,
        "data.task": task,
        "model.rank": rank,
        "model.hidden_channels": hidden,
        "model.num_layers": layers,
        "model.dropout": dropout,
        "optimizer.lr": lr,
        "train.epochs": epochs,
        "train.patience": patience,
        "train.batch_size": batch_size,
        "train.num_neighbors": sample,
        "train.metric": metric,
        "train.class_weight": class_weight,
        "train.calibrate": calibrate or None,
        "train.baselines": baselines,
        "train.seed": seed,
        "train.device": device,
        "train.precision": precision,
        "train.track": tuple(track) if track else None,
    }
    options = {key: value for key, value in flags.items() if value is not None}
    options |= dict(parse_option(text) for text in overrides or [])
    check_data_and_model(name or data, model, recipe, options)
    if _is_code(name or data):
        if model is not None or recipe is not None or runs > 1 or (processes or 1) > 1:
            raise typer.BadParameter(
                "An error-correcting code is trained as one decoder in one process. Remove --model, --recipe, --runs "
                "and --processes."
            )
        from tgnn.cli.train_decoder import train_code

        train_code(name or data or "", options, folder, dry_run, json)
        return
    if model == "auto":
        if dry_run or (processes or 1) > 1 or "RANK" in os.environ:
            raise typer.BadParameter(
                "--model auto trains several models, each in one process. Remove --dry-run and --processes.",
                param_hint="--model",
            )
        from tgnn.cli.train_auto import train_auto

        train_auto(name or data, recipe, options, runs, jobs, folder, json)
        return
    with _join_torchrun() as world:
        from tgnn.training.distributed.world import SINGLE_PROCESS
        from tgnn.training.train import default_folder, resolve_config

        config = resolve_config(name or data, model, recipe, options)
        if dry_run:
            print_config(config, json)
            return
        out_folder = folder or default_folder(config, world or SINGLE_PROCESS)
        _train(config, runs, out_folder, jobs, processes, False, json, world)


def _is_code(data: str | Path | None) -> bool:
    from tgnn.training.decoder_runs import is_code

    return is_code(data)


# ---- options, shared with other commands -----------------------------------------------------------------------


def check_data_and_model(
    data: str | Path | None, model: str | None, recipe: Path | None, options: Mapping[str, Any]
) -> None:
    """Check that the data is given, and that data and model are not given twice, before torch is imported."""
    if data is None and recipe is None and "data.name" not in options:
        raise typer.BadParameter(
            "Give a data set by name, your own data with --data, or a recipe that names one.", param_hint="NAME"
        )
    for given, hint, key in ((data, "NAME", "data.name"), (model, "--model", "model.name")):
        if given is not None and key in options:
            raise typer.BadParameter(f"Give {hint} or --set {key}=..., not both.", param_hint=hint)


def check_output_folder(folder: Path) -> None:
    """Check that a run can be written to a folder."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if not existing.is_dir():
        raise typer.BadParameter(f"{existing} is a file. Choose a folder.", param_hint="--out")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise typer.BadParameter(f"{existing} is not writable. Choose another folder.", param_hint="--out")


def parse_option(text: str) -> tuple[str, Any]:
    """Parse ``KEY=VALUE`` of ``--set``. The value is YAML."""
    from tgnn.utils.yaml import parse_yaml

    key, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"{text!r} is not KEY=VALUE, such as optimizer.lr=0.1.", param_hint="--set")
    try:
        return key.strip(), parse_yaml(value)
    except ValueError:
        raise typer.BadParameter(f"{value!r} is not a valid value.", param_hint="--set") from None


_NOT_SHAREABLE = ("data.root", "data.offline", "data.name", "model.name")
"""Options that depend on the machine, or that have their own flag."""


def shareable_options(overrides: Iterable[str]) -> list[str]:
    """Return the ``--set`` options that belong into a command for other users."""
    return [text for text in overrides if text.partition("=")[0].strip() not in _NOT_SHAREABLE]


def print_config(config: Config, json: bool) -> None:
    """Print a configuration as YAML or JSON."""
    sections = config.model_dump(mode="json")
    if json:
        print_json(sections | {"hash": config.hash})
        return
    import yaml

    out.print(yaml.safe_dump(sections, sort_keys=False), markup=False, highlight=False, end="")


# ---- training --------------------------------------------------------------------------------------------------


def _read_configuration(
    folder: Path, data: Path | None, epochs: int | None, patience: int | None, world: World | None
) -> tuple[Config, int]:
    """Return the configuration to continue with and the number of runs of a folder. Rank 0 reads for all ranks."""
    from tgnn.training.config import make_config
    from tgnn.training.distributed.world import SINGLE_PROCESS
    from tgnn.training.repeated_runs import RunGroup, load_run
    from tgnn.training.resume import not_extendable_group, with_data_path

    def read() -> tuple[dict[str, Any], int]:
        run = load_run(folder)
        if isinstance(run, RunGroup) and (epochs or patience):
            raise not_extendable_group(run, epochs, patience)
        config = with_data_path(run.config, data)
        limits = {"epochs": epochs or config.train.epochs, "patience": patience or config.train.patience}
        config = config.replace("train", **limits)
        return config.model_dump(mode="json"), run.size if isinstance(run, RunGroup) else 1

    sections, runs = (world or SINGLE_PROCESS).broadcast(read)
    return make_config(sections), runs


def _train(
    config: Config,
    runs: int,
    folder: Path,
    jobs: int | None,
    processes: int | None,
    resume: bool,
    json: bool,
    world: World | None,
    changes: Sequence[str] = (),
) -> None:
    if runs > 1 and ((world is not None and world.size > 1) or (processes or 1) > 1):
        raise typer.BadParameter("Several processes train one run. Use --jobs to train several runs in parallel.")
    if world is None and (processes or 1) > 1:
        _launch_processes(processes or 1, folder, resume)
        return
    from tgnn.cli.training_output import print_result, show_epochs, show_runs
    from tgnn.training.distributed.world import SINGLE_PROCESS
    from tgnn.training.interrupts import Interrupted
    from tgnn.training.run_folder import RunFolder
    from tgnn.training.train import train as train_model

    quiet = json or console.verbosity < 0
    command = shlex.join(["tgnn", "train", "--resume", str(folder), *changes])
    try:
        if runs == 1:
            with show_epochs(config, quiet) as on_epoch:
                run = train_model(config, out=folder, resume=resume, on_epoch=on_epoch, world=world or SINGLE_PROCESS)
        else:
            with show_runs(config, runs, quiet) as on_run:
                run = train_model(config, out=folder, resume=resume, runs=runs, jobs=jobs, on_run=on_run)
    except Interrupted:
        print_text(f"interrupted; continue with: {command}", err)
        if world is not None:
            raise  # after the other processes
        raise typer.Exit(130) from None
    except OSError as error:
        if not RunFolder(folder).has_started:
            raise
        raise OSError(f"{error_message(error)}\nThe last checkpoint is kept. Continue with: {command}") from error
    if world is not None and not world.is_rank_zero:
        return
    print_result(run.metrics, folder, quiet=json)
    if json:
        print_json({**run.metrics, "folder": str(folder)})


# ---- several processes -----------------------------------------------------------------------------------------


def _launch_processes(processes: int, folder: Path, resume: bool) -> None:
    """Run the same command in several processes, which find each other through torchrun's environment variables."""
    from tgnn.training.distributed.torchrun import launch
    from tgnn.training.run_folder import RunFolder

    arguments = [*sys.argv[1:], *([] if resume else ["--out", str(folder)])]
    code = launch(run_in_process, arguments, processes)
    if code == 130 and not RunFolder(folder).has_started:  # otherwise rank 0 has printed how to continue
        print_text("interrupted before training started; nothing was saved", err)
    raise typer.Exit(code)


def run_in_process(arguments: list[str]) -> int:
    """Run the command in one of several processes.

    An error of the user is returned as an exit code, which ends all processes. The launcher restarts all processes if
    one of them ends in another way.
    """
    from tgnn.cli.app import main

    sys.argv = ["tgnn", *arguments]
    try:
        main()
    except SystemExit as end:
        if end.code not in (0, 1, 2):
            raise
        return int(end.code)
    return 0


@contextlib.contextmanager
def _join_torchrun() -> Iterator[World | None]:
    """Join the processes that torchrun has started; ``None`` without torchrun. One process per machine prints."""
    if "RANK" not in os.environ:
        yield None
        return
    from tgnn.training.distributed.torchrun import join_world
    from tgnn.training.interrupts import Interrupted

    if os.environ.get("LOCAL_RANK", "0") != "0":
        err.quiet = out.quiet = logging.getLogger("tgnn").disabled = True
    try:
        with join_world() as world:
            yield world
    except Interrupted:
        raise typer.Exit(130) from None
