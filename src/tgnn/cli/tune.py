"""``tgnn tune``: search hyperparameters with Optuna."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tgnn.cli import console
from tgnn.cli.console import err, format_duration, out, print_json, print_rows, print_text
from tgnn.cli.options import METRIC_HELP, IdColumn, Json, Offline, Root, Target, TaskOption
from tgnn.cli.train import check_data_and_model, parse_option, shareable_options

if TYPE_CHECKING:
    from rich.table import Table

    from tgnn.tuning.results import StudyResult, Trial
    from tgnn.tuning.search_space import SearchPlan


def _default_finals(trials: int) -> int:
    """Return the number of best trials to evaluate again: one per six trials, at most five."""
    return min(5, max(trials // 6, 1)) if trials > 1 else 0


def tune(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="Name of a data set (see `tgnn data list`). Default: the data set of the recipe."
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Path of your own data instead of NAME, e.g. a folder of tables or a .npz file.")
    ] = None,
    target: Target = None,
    id_column: IdColumn = None,
    task: TaskOption = None,
    model: Annotated[str | None, typer.Option(help="Name of a model (see `tgnn models`). Default: tgnn.")] = None,
    trials: Annotated[int, typer.Option(min=1, help="Total number of trials of the study.")] = 60,
    metric: Annotated[str | None, typer.Option(help=f"Validation metric that scores the trials: {METRIC_HELP}")] = None,
    splits: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of splits over which the score of a trial is averaged. "
            "Default: 3, or 1 if the data set has a published split.",
        ),
    ] = None,
    finals: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Number of best trials to evaluate again at the end, on new splits and seeds, in addition to trial 0. "
            "The trial with the best final score is written to best.yaml. Use 0 to skip this evaluation. "
            "Default: one per six trials, at most 5.",
        ),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Number of trials to run in parallel. Default: number of cores.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31, help="Random seed of the sampler.")] = 0,
    search: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=A,B,C",
            help="Search KEY over these values instead of its default range. The value of the recipe is always "
            "included. KEY= excludes KEY from the search.",
        ),
    ] = None,
    fixed_options: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Fix KEY to VALUE in all trials.")
    ] = None,
    recipe: Annotated[
        Path | None, typer.Option(help="YAML recipe with the hyperparameters of trial 0. Default: the built-in recipe.")
    ] = None,
    root: Root = None,
    offline: Offline = False,
    storage: Annotated[
        str | None,
        typer.Option(
            help="Optuna storage URL that several machines share, e.g. postgresql://user@host/name. "
            "Default: a SQLite file in --out."
        ),
    ] = None,
    study: Annotated[
        str | None, typer.Option(help="Name of the Optuna study. Default: data set and model, e.g. cora-tgnn.")
    ] = None,
    folder: Annotated[Path | None, typer.Option("--out", help="Output folder. Default: runs/tune/STUDY.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the search space and exit.")] = False,
    json: Json = False,
) -> None:
    """Search hyperparameters with Optuna and write the best ones as a recipe for `tgnn train`.

    Trials are scored on the validation set. Test labels are never read.
    The default search space combines the ranges of the paper with those of the model (see `--dry-run`).
    Run the same command again to resume an interrupted search.
    The same seed gives the same trials with `--jobs 1`.

    Examples:
    `tgnn tune cora --trials 60 --jobs 2`
    `tgnn tune cora --model gcn --search optimizer.lr=0.01,0.05`
    `tgnn tune --data my_folder --storage postgresql://me@host/studies`
    """
    if name is not None and data is not None:
        raise typer.BadParameter("Give NAME or --data, not both.", param_hint="NAME")
    changes: dict[str, Any] = {"data.root": root and str(root), "data.offline": offline or None}
    changes = {key: value for key, value in changes.items() if value is not None}
    named = {"train.metric": metric, "data.target": target, "data.id": id_column, "data.task": task}
    fixed_options = [*(fixed_options or []), *(f"{key}={value}" for key, value in named.items() if value)]
    fixed = dict(parse_option(text) for text in fixed_options)
    if "train.seed" in fixed:
        raise typer.BadParameter(
            "train.seed cannot be set, because the seeds of the splits are the same in all searches: use --seed for "
            "the sampler",
            param_hint="--set",
        )
    check_data_and_model(name or data, model, recipe, fixed)
    user_space = _parse_search(search or [], fixed)
    from tgnn.training.train import resolve_config
    from tgnn.tuning.search_space import plan_search

    config = resolve_config(name or data, model, recipe, {**changes, **fixed})
    finals = _default_finals(trials) if finals is None else finals
    plan = plan_search(config, user_space, fixed, trials, splits, seed, finals)
    if dry_run:
        _print_search_space(plan, json)
        return
    folder = folder or Path("runs") / "tune" / (study or plan.study_name)
    jobs = min(jobs or os.cpu_count() or 1, trials)
    command = _command(plan, jobs, recipe, study, search or [], fixed_options)
    _run(plan, folder, jobs, storage, study, command, json)


def _parse_search(texts: list[str], fixed: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Parse ``KEY=A,B,C`` of ``--search`` into the distinct values of each key."""
    from tgnn.utils.yaml import parse_yaml

    space: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        key, equals, values = (part.strip() for part in text.partition("="))
        if not equals:
            raise typer.BadParameter(f"{text!r} is not KEY=A,B,C, such as optimizer.lr=0.01,0.1", param_hint="--search")
        if key in space:
            raise typer.BadParameter(f"{key} is given twice: use one {key}=A,B,C", param_hint="--search")
        if values and key in fixed:
            raise typer.BadParameter(f"{key} is in --search and in --set: use one of them", param_hint="--search")
        try:
            parsed = parse_yaml(f"[{values}]")
        except ValueError:
            raise typer.BadParameter(
                f"{values!r} is not a list of values such as 0.01,0.1", param_hint="--search"
            ) from None
        space[key] = tuple(value for index, value in enumerate(parsed) if value not in parsed[:index])
    return space


def _print_search_space(plan: SearchPlan, json: bool) -> None:
    if json:
        print_json(plan.to_dict())
        return
    from tgnn.tuning.results import format_value

    rows = [
        (key, format_value(plan.initial_params[key]), ", ".join(map(format_value, values)))
        for key, values in plan.space.items()
    ]
    print_rows(("hyperparameter", "trial 0", "search space"), rows)
    trials, splits = _plural(plan.trials, "trial"), _plural(plan.splits, "split")
    out.print(f"{trials}, each scored by its mean validation metric over {splits}")
    if plan.finals:
        best = f"the {plan.finals} best trials" if plan.finals > 1 else "the best trial"
        out.print(f"final evaluation of {best} and trial 0 on {len(plan.final_splits)} new splits and seeds")


def _run(
    plan: SearchPlan, folder: Path, jobs: int, storage: str | None, study: str | None, command: str, json: bool
) -> None:
    try:
        from tgnn.tuning.results import RECIPE_FILE
        from tgnn.tuning.study import tune as run_study
    except ImportError as error:
        raise ImportError(f"tgnn tune needs {error.name}: pip install '.[tune]'") from error
    from tgnn.training.interrupts import Interrupted

    quiet = json or console.verbosity < 0
    if not quiet:
        print_text(_announcement(plan, jobs), err)
    try:
        with _show_progress(plan, jobs, quiet) as on_progress:
            result = run_study(plan, folder, jobs, storage, study, command, on_progress)
    except Interrupted:
        err.print("stopped. Finished trials are saved. Run the same command again to resume.")
        raise typer.Exit(130) from None
    recipe = folder / RECIPE_FILE
    if json:
        assert result.best is not None
        print_json({"recipe": str(recipe), "best": asdict(result.best), "study": asdict(result)})
        return
    for what, trials in (("trial", result.trials), ("final evaluation", result.finals)):
        if failed := [trial for trial in trials if trial.state == "failed"]:
            message = f"{_plural(len(failed), what)} failed, first error (trial {failed[0].number}): {failed[0].reason}"
            print_text(message, err)
    console.print_table(_trial_table(result, 10, out.width))
    print_text("\n".join(_summary(result)))
    train = f"tgnn train --recipe {recipe} --runs 10"
    print_text(f"best hyperparameters saved to {recipe}\ntrain with them: {train}", err)


def _command(
    plan: SearchPlan, jobs: int, recipe: Path | None, study: str | None, search: list[str], fixed_options: list[str]
) -> str:
    """Return the command that repeats the search, without options that are private to a machine.

    Several jobs are left out, because only a search with one job can be repeated exactly.
    """
    from tgnn.data.catalog import CATALOG

    name = plan.config.data.name
    arguments = ["tgnn", "tune", *([name] if name in CATALOG else ["--data", Path(name).name])]
    arguments += ["--model", plan.config.model.name, *(["--recipe", recipe.name] if recipe else [])]
    arguments += ["--study", study] if study else []
    arguments += ["--trials", str(plan.trials), "--splits", str(plan.splits)]
    arguments += ["--finals", str(plan.finals)] if plan.finals != _default_finals(plan.trials) else []
    arguments += ["--seed", str(plan.seed)] if plan.seed else []
    arguments += ["--jobs", "1"] if jobs == 1 else []
    arguments += [argument for text in search for argument in ("--search", text)]
    arguments += [argument for text in shareable_options(fixed_options) for argument in ("--set", text)]
    return shlex.join(arguments)


# ---- progress and summary ------------------------------------------------------------------------------------------


def _announcement(plan: SearchPlan, jobs: int) -> str:
    """State how many models will be trained."""
    text = f"{_plural(plan.trials, 'trial')} on {_plural(plan.splits, 'split')}"
    total = plan.trials * plan.splits
    if plan.finals:
        finals = plan.finals + 1  # and trial 0
        text += f", then {_plural(finals, 'final evaluation')} on {_plural(len(plan.final_splits), 'split')}"
        total += finals * len(plan.final_splits)
    at_once = f", {jobs} at a time" if jobs > 1 else ""
    return f"{text}: at most {_plural(total, 'training')}{at_once}"


def _seconds_left(result: StudyResult, plan: SearchPlan, jobs: int) -> float | None:
    """Estimate the remaining time from the mean time of a training. ``None`` before the first trial has ended."""
    ended = [
        trial for trial in [*result.trials, *result.finals] if trial.seconds is not None and trial.state != "running"
    ]
    trainings = sum(max(len(trial.scores), 1) for trial in ended)
    if not ended:
        return None
    trials_left = result.num_trials - result.count("complete", "pruned", "failed")
    finals_left = result.finals_left if result.finals or result.finals_left else (plan.finals + 1) * bool(plan.finals)
    left = trials_left * plan.splits + finals_left * len(plan.final_splits)
    return sum(trial.seconds or 0.0 for trial in ended) / trainings * left / jobs


@contextlib.contextmanager
def _show_progress(plan: SearchPlan, jobs: int, quiet: bool) -> Iterator[Callable[[StudyResult], None]]:
    """Yield a callback that shows a live table, or without a terminal prints a line for each finished trial."""
    if quiet:
        yield lambda result: None
    elif err.is_terminal:
        from rich.console import Group
        from rich.live import Live

        with Live(console=err, transient=True, refresh_per_second=2) as live:

            def update(result: StudyResult) -> None:
                lines = [*_summary(result), *_time_left(_seconds_left(result, plan, jobs))]
                live.update(Group(_trial_table(result, 8, err.width), *lines))

            yield update
    else:
        yield _ProgressLines(plan, jobs)


def _time_left(seconds: float | None) -> list[str]:
    return [f"about {format_duration(seconds)} left"] if seconds else []


class _ProgressLines:
    """Print a line for each trial and each final evaluation that ends."""

    def __init__(self, plan: SearchPlan, jobs: int) -> None:
        self._plan, self._jobs = plan, jobs
        self._printed: dict[str, set[int]] | None = None

    def __call__(self, result: StudyResult) -> None:
        ended = [trial for trial in result.trials if trial.state != "running"]
        num_finals = len(result.finals) + result.finals_left
        phases = {
            "": (ended, result.ranking, result.num_trials),
            "final evaluation ": (result.finals, result.final_ranking, num_finals),
        }
        if self._printed is None:
            self._printed = {phase: {trial.number for trial in trials} for phase, (trials, _, _) in phases.items()}
            if ended:
                print_text(f"resuming study {result.name}: {', '.join(_summary(result))}", err)
        for phase, (trials, ranking, total) in phases.items():
            best = f", best validation {result.metric} {_describe(ranking[0])}" if ranking else ""
            for trial in trials:
                if trial.number not in self._printed[phase]:
                    self._printed[phase].add(trial.number)
                    is_failed = trial.state == "failed"
                    outcome = f" failed: {trial.reason}" if is_failed else f": {_score_or_state(trial)}{best}"
                    left = "".join(f", {text}" for text in _time_left(_seconds_left(result, self._plan, self._jobs)))
                    position = f"[{phase}{len(self._printed[phase])}/{total}]"
                    print_text(f"{position} trial {trial.number}{outcome}{left}", err)


def _score_or_state(trial: Trial) -> str:
    return trial.state if trial.score is None else f"{trial.score:.4f}"


def _describe(trial: Trial) -> str:
    return f"{trial.score:.4f} (trial {trial.number})"


def _summary(result: StudyResult) -> list[str]:
    """Return the number of finished trials, the best score and the state of the final evaluation."""
    counts = [f"{count} {state}" for state in ("pruned", "failed", "running") if (count := result.count(state))]
    finished = result.count("complete", "pruned", "failed")
    lines = [f"{finished} of {result.num_trials} trials finished" + (f" ({', '.join(counts)})" if counts else "")]
    if result.ranking:
        lines.append(f"best validation {result.metric} {_describe(result.ranking[0])}")
    if num_finals := len(result.finals) + result.finals_left:
        left = f"{len(result.finals)} of {num_finals} finished" if result.finals_left else ""
        best = f"best {_describe(result.final_ranking[0])}" if result.final_ranking else ""
        details = ", ".join(filter(None, (left, best))) or "all failed"
        lines.append(f"final evaluation on new {result.unit}s: {details}")
    return lines


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def _trial_table(result: StudyResult, rows: int, width: int) -> Table:
    """Return a table of the best trials, those of the final evaluation first.

    Columns are the hyperparameters in which the trials differ. Columns that exceed the width are left out.
    """
    from rich.table import Table

    from tgnn.tuning.results import format_value, short_names

    finals = {trial.number: trial for trial in result.finals}
    complete = {trial.number: trial for trial in result.ranking}
    order = [*(trial.number for trial in result.final_ranking), *finals, *complete]
    shown = [complete[number] for number in dict.fromkeys(order)][:rows]
    columns = {"trial": [str(trial.number) for trial in shown], result.metric: list(map(_score_or_state, shown))}
    if finals:
        shown_finals = [finals.get(trial.number) for trial in shown]
        columns[f"final {result.metric}"] = [_score_or_state(trial) if trial else "" for trial in shown_finals]
    differing = [key for key in result.space if len({str(trial.params.get(key)) for trial in shown}) > 1]
    names = short_names(differing or list(result.space))
    columns |= {name: [format_value(trial.params.get(key)) for trial in shown] for key, name in names.items()}
    ends = accumulate(max(map(len, [header, *cells])) + 2 for header, cells in columns.items())
    fitting = [header for header, end in zip(columns, ends) if end <= width + 2]
    hidden = len(columns) - len(fitting)
    table = Table(*fitting, box=None, pad_edge=False, caption_justify="left")
    table.caption = f"{_plural(hidden, 'more column')}: see tgnn report" if hidden else None
    for row in zip(*(columns[header] for header in fitting)):
        table.add_row(*row)
    return table
