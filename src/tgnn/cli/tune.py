"""``tgnn tune``."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tgnn.cli import console
from tgnn.cli.console import err, out, print_json
from tgnn.cli.resolve import resolve_config
from tgnn.cli.train import key_and_value, public

if TYPE_CHECKING:
    from rich.table import Table

    from tgnn.training.config import Config
    from tgnn.tuning.plan import Plan
    from tgnn.tuning.results import StudyResult, Trial


def tune(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A name of `tgnn data list`; none: the recipe's.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Your own data instead: a folder of tables, a .npz, ...")] = None,
    model: Annotated[str | None, typer.Option(help="A name of `tgnn models`; by default tgnn.")] = None,
    trials: Annotated[int, typer.Option(min=1, help="Sets of settings to try.")] = 60,
    splits: Annotated[
        int | None, typer.Option(min=1, help="Splits to average over; by default 3, of a published split 1.")
    ] = None,
    finals: Annotated[
        int,
        typer.Option(
            min=0, help="How many of the best are judged once more at the end, with the start, on other splits."
        ),
    ] = 5,
    jobs: Annotated[int | None, typer.Option(min=1, help="Trials at once; by default one per core.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31, help="Of what is tried.")] = 0,
    search: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=A,B,C",
            help="Values to try in place of the known ones, beside the recipe's own; KEY= leaves it alone.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting for all trials, not searched.")
    ] = None,
    recipe: Annotated[Path | None, typer.Option(help="A YAML file of settings to start from.")] = None,
    root: Annotated[
        Path | None, typer.Option(envvar="TGNN_DATA", help="Folder with files, looked into before cache and network.")
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Never touch the network.")] = False,
    storage: Annotated[
        str | None,
        typer.Option(help="A database that many machines share, as postgresql://user@host/name; else a file in --out."),
    ] = None,
    study: Annotated[str | None, typer.Option(help="Name of the study; by default data set and model.")] = None,
    together: Annotated[
        int, typer.Option(min=1, help="Trials that do not wait for one another; at least as many as workers.")
    ] = 10,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Folder of the study; by default runs/tune/ and its name.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be searched and stop.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one machine-readable object and nothing else.")] = False,
) -> None:
    """Search for good settings, judged on validation only, and write them as a recipe for `tgnn train`.

    The paper's ranges are tried, and those of the model's own (`--dry-run` shows them). Stop it whenever you like and
    type the same line again: it goes on. The same seed gives the same trials, with any number of jobs.

    Examples: `tgnn tune cora --trials 60 --jobs 2`, `tgnn tune cora --model gcn --search optimizer.lr=0.01,0.05`,
    `tgnn tune --data my_folder --storage postgresql://me@host/studies`.
    """
    if name is not None and data is not None:
        raise typer.BadParameter("give NAME or --data, not both", param_hint="NAME")
    changes: dict[str, Any] = {"data.root": root and str(root), "data.offline": offline or None}
    changes = {key: value for key, value in changes.items() if value is not None}
    fixed = dict(key_and_value(text) for text in settings or [])
    if "train.seed" in fixed:
        raise typer.BadParameter("give --seed; the seeds of splits and weights are the same in all searches", None)
    config = resolve_config(name or (str(data.resolve()) if data else None), model, recipe, {**changes, **fixed})
    plan = _plan(config, search or [], fixed, trials, splits, seed, finals, together)
    if dry_run:
        _show_space(plan, json)
        return
    place = folder or Path("runs") / "tune" / (study or plan.name)
    command = _command(plan, recipe, study, search or [], settings or [])
    _run(plan, place, jobs or os.cpu_count() or 1, storage, study, command, json)


def _plan(
    config: Config,
    search: list[str],
    fixed: dict[str, Any],
    trials: int,
    splits: int | None,
    seed: int,
    finals: int,
    together: int,
) -> Plan:
    from tgnn.training.prepare import prepare_without_test
    from tgnn.training.train import make_model
    from tgnn.tuning.plan import Plan
    from tgnn.tuning.search_space import check_search, space_of, usual_splits, with_defaults

    own: dict[str, tuple[Any, ...]] = {}
    for key, values in map(_key_and_values, search):
        if key in own:
            raise typer.BadParameter(f"{key} is there twice: {key}=A,B,C tries several", param_hint="--search")
        own[key] = values
    if both := sorted(key for key, values in own.items() if values and key in fixed):
        raise typer.BadParameter(f"{both[0]} is searched and set: leave out --search or --set", param_hint="--search")
    prepared = prepare_without_test(config)
    make_model(config, prepared.shape)  # data that the model cannot take are told now, not by every trial
    space = space_of(config, prepared, own)
    check_search(config, prepared.shape.level, own)
    optimizers = {config.optimizer.name, *own.get("optimizer.name", ())}
    if len(optimizers) > 1 and "optimizer.weight_decay" not in {**own, **fixed}:
        raise typer.BadParameter(
            "decays of adam and adamw are of other sizes: say which to try, such as "
            "--search optimizer.weight_decay=0,0.001,0.1, or search them one by one",
            param_hint="--search",
        )
    space = {key: values for key, values in space.items() if key not in fixed}
    if not space:
        raise typer.BadParameter("nothing is left to search", param_hint="--search")
    config = with_defaults(config, prepared.shape.level, space)
    plan = Plan(config, space, trials, splits or usual_splits(prepared), seed, min(finals, trials), together)
    for key, values in plan.space.items():
        for value in values:
            plan.config_of({**plan.start, key: value})  # what cannot be is said now
    return plan


def _key_and_values(text: str) -> tuple[str, tuple[Any, ...]]:
    from tgnn.utils.yaml import parse_yaml

    key, equals, values = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"{text!r} is not KEY=A,B,C, such as optimizer.lr=0.01,0.1", param_hint="--search")
    try:
        found = parse_yaml(f"[{values}]")
    except ValueError:
        raise typer.BadParameter(
            f"{values!r} is not a list of values such as 0.01,0.1", param_hint="--search"
        ) from None
    return key.strip(), tuple(value for place, value in enumerate(found) if value not in found[:place])


def _show_space(plan: Plan, json: bool) -> None:
    if json:
        print_json(plan.to_dict())
        return
    from rich.table import Table

    from tgnn.tuning.results import in_words

    table = Table("setting", "starts at", "is searched over", box=None, pad_edge=False)
    for key, values in plan.space.items():
        table.add_row(key, in_words(plan.start[key]), ", ".join(map(in_words, values)))
    console.print_table(table)
    count = f"{plan.trials} trial{'s' * (plan.trials > 1)}"
    out.print(f"{count}, each the mean validation score over {plan.splits} split{'s' * (plan.splits > 1)}")
    if plan.finals:
        best = f"the {plan.finals} best" if plan.finals > 1 else "the best"
        out.print(f"then {best}, and the start, once more, over {len(plan.final_splits)} other splits and seeds")


def _run(plan: Plan, folder: Path, jobs: int, storage: str | None, study: str | None, command: str, json: bool) -> None:
    try:
        from tgnn.tuning.results import RECIPE
        from tgnn.tuning.study import tune as search
    except ImportError as error:
        raise ImportError(f"tgnn tune needs {error.name}: pip install 'tgnn[tune]'") from error
    from tgnn.training.interrupts import Interrupted

    try:
        with _watch(quiet=json or console.verbosity < 0) as tell:
            result = search(plan, folder, min(jobs, plan.trials), storage, study, command, tell)
    except Interrupted:
        err.print("stopped; what was tried is kept: type the same line again to go on")
        raise typer.Exit(130) from None
    if json:
        import dataclasses

        best = result.best
        assert best is not None
        print_json(
            {"recipe": str(folder / RECIPE), "best": dataclasses.asdict(best), "study": dataclasses.asdict(result)}
        )
        return
    for when, trials in (("", result.trials), (" when judged once more", result.finals)):
        if failed := [trial for trial in trials if trial.state == "failed"]:
            first = f"trial {failed[0].number}: {failed[0].reason}"
            err.print(f"{len(failed)} failed{when}, the first {first}", markup=False, highlight=False, soft_wrap=True)
    console.print_table(_table(result, 10, out.width))
    out.print(_sum_up(result), highlight=False, soft_wrap=True)
    recipe = folder / RECIPE
    err.print(f"the best is saved as {recipe}\ntrain with it: tgnn train --recipe {recipe} --runs 10", soft_wrap=True)


def _command(plan: Plan, recipe: Path | None, study: str | None, search: list[str], settings: list[str]) -> str:
    """What a reader can type to have the same; without what is private to a machine."""
    from tgnn.data.catalog import CATALOG

    name = plan.config.data.name
    words = ["tgnn", "tune", *([name] if name in CATALOG else ["--data", Path(name).name])]
    words += ["--model", plan.config.model.name, *(["--recipe", recipe.name] if recipe else [])]
    words += ["--study", study] if study else []
    words += ["--trials", str(plan.trials), "--splits", str(plan.splits)]
    words += ["--finals", str(plan.finals)] if plan.finals != min(5, plan.trials) else []
    words += ["--seed", str(plan.seed)] if plan.seed else []
    words += ["--together", str(plan.together)] if plan.together != 10 else []
    words += [word for text in search for word in ("--search", text)]
    words += [word for text in public(settings) for word in ("--set", text)]
    return shlex.join(words)


# ---- what a user watches -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _watch(quiet: bool) -> Iterator[Callable[[StudyResult], None]]:
    """A table of the best so far; off a terminal a line for every trial that ends, and when it is judged once more."""
    if quiet:
        yield lambda result: None
        return
    if err.is_terminal:
        from rich.live import Live

        with Live(console=err, transient=True, refresh_per_second=2) as live:

            def show(result: StudyResult) -> None:
                from rich.console import Group

                live.update(Group(_table(result, 8, err.width), _sum_up(result)))

            yield show
        return
    said: set[str] | None = None

    def tell(result: StudyResult) -> None:
        nonlocal said
        ended = [f"trial {trial.number}: {_score(trial)}" for trial in result.trials if trial.state != "running"]
        ended += [f"trial {trial.number}, once more: {_score(trial)}" for trial in result.finals]
        if said is None and ended:
            err.print(f"going on with a study: {_sum_up(result)}", highlight=False, soft_wrap=True)
            said = set(ended)
        for text in ended:
            if text not in (said or ()):
                err.print(f"{text}; {_sum_up(result)}", markup=False, highlight=False, soft_wrap=True)
        said = set(ended)

    yield tell


def _score(trial: Trial) -> str:
    return _in_short(trial) + (f" ({trial.reason})" if trial.reason else "")


def _sum_up(result: StudyResult) -> str:
    done = result.count("complete", "pruned", "failed")
    words = f"{done} of {result.asked} trials done"
    parts = [f"{count} {state}" for state in ("pruned", "failed", "running") if (count := result.count(state))]
    words += f" ({', '.join(parts)})" if parts else ""
    if result.ranking:
        first = result.ranking[0]
        words += f", best validation {result.metric} {first.score:.4f} (trial {first.number})"
    judged, finals = len(result.judged), len(result.finals) + result.finals_left
    if finals:
        of_all = f" of {finals}" if judged < finals else ""
        words += f"; {judged}{of_all} judged once more on other {result.unit}s"
    if judged:
        first = result.judged[0]
        words += f", the best {first.score:.4f} (trial {first.number})"
    return words


def _table(result: StudyResult, rows: int, width: int) -> Table:
    """The best trials, first those that were judged once more, with the settings in which they differ; as many of these
    as there is room for.
    """
    from rich.table import Table

    from tgnn.tuning.results import in_words, short_names

    finals = {trial.number: trial for trial in result.finals}
    trials = {trial.number: trial for trial in result.ranking}
    first = [*(trial.number for trial in result.judged), *finals, *trials]
    shown = [trials[number] for number in dict.fromkeys(first)][:rows]
    columns = {"trial": [str(trial.number) for trial in shown], result.metric: list(map(_in_short, shown))}
    if finals:
        again = [finals.get(trial.number) for trial in shown]
        columns[f"on other {result.unit}s"] = [_in_short(trial) if trial else "" for trial in again]
    keys = [key for key in result.space if len({str(trial.values.get(key)) for trial in shown}) > 1]
    names = short_names(keys or list(result.space))
    columns |= {name: [in_words(trial.values.get(key)) for trial in shown] for key, name in names.items()}
    ends = accumulate(max(map(len, [header, *cells])) + 2 for header, cells in columns.items())
    fit = [header for header, end in zip(columns, ends) if end <= width + 2]
    left = len(columns) - len(fit)
    table = Table(*fit, box=None, pad_edge=False, caption_justify="left")
    table.caption = f"and {left} more settings: tgnn report shows all" if left else None
    for row in zip(*(columns[header] for header in fit)):
        table.add_row(*row)
    return table


def _in_short(trial: Trial) -> str:
    return trial.state if trial.score is None else f"{trial.score:.4f}"
