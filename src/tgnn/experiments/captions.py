"""Titles, notes and failure messages that are shown with a result.

Title, layout and notes come from the definition of the experiment, so that old result files show the current wording.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from tgnn.data.catalog import CATALOG
from tgnn.experiments.definitions import EXPERIMENTS
from tgnn.experiments.experiment import Experiment, Selection
from tgnn.experiments.notes import Note
from tgnn.experiments.results import CellResult, Result
from tgnn.training.config import NOT_HASHED, Config, make_config
from tgnn.utils.yaml import parse_yaml

_MAX_LENGTH = 120
"""Maximum length of a failure message in a table cell."""


def changed_options(result: Result) -> dict[str, Any]:
    """Return the options that ``--set`` of the stored commands changes, if they can change a result."""
    changes: dict[str, Any] = {}
    if result.name not in EXPERIMENTS:  # there is nothing that they change
        return changes
    for command in result.command.split("; "):
        try:
            words = shlex.split(command)
        except ValueError:  # not a command line
            continue
        for option, text in pairwise(words):
            key, equals, value = text.partition("=")
            section, _, name = key.strip().partition(".")
            if option == "--set" and equals and name not in NOT_HASHED.get(section, ()):
                changes[key.strip()] = parse_yaml(value)
    return changes


def result_title(result: Result) -> str:
    """Return the title of the experiment with changed options, or the name of the result if it is unknown."""
    experiment = EXPERIMENTS.get(result.name)
    if experiment is None:
        return f"Models on {name}" if (name := result.name.removeprefix("compare-")) != result.name else result.name
    title = experiment.title
    changed = ", ".join(f"{key}={value}" for key, value in changed_options(result).items())
    return f"{title} (changed: {changed})" if changed else title


def result_layout(result: Result) -> str:
    """Return how the result is displayed (:class:`~tgnn.experiments.experiment.Experiment`)."""
    experiment = EXPERIMENTS.get(result.name)
    return "table" if experiment is None else experiment.layout


def result_notes(result: Result) -> list[str]:
    """Return the notes of the experiment, the splits, outdated hyperparameters and notes on the data of each column.

    A note of the experiment on options that the result changes is left out.
    """
    experiment = EXPERIMENTS.get(result.name)
    changes = changed_options(result)
    notes = [] if experiment is None else list(experiment.notes)
    if changes:
        changed = ", ".join(f"{key}={value}" for key, value in changes.items())
        notes = [note for note in notes if not isinstance(note, Note) or note.holds(changes)]
        notes.insert(0, f"Changed by --set in every cell: {changed}.")
    if experiment is not None and experiment.measure is not None:
        return notes
    splits = _split_note(result.cells)
    outdated = "" if experiment is None else _outdated_note(result, experiment, changes)
    columns = dict.fromkeys(f"{cell.column}: {cell.note}" for cell in result.cells if cell.note)
    return [*notes, *filter(None, (splits, outdated)), *columns]


def _split_note(cells: Sequence[CellResult]) -> str:
    names_by_split: dict[str, dict[str, None]] = {}
    for cell in cells:
        options: Mapping[str, Any] = cell.config.get("data", {})
        name = options.get("name", "")
        split = options.get("split") or (CATALOG[name].default_split if name in CATALOG else "")
        if split:
            names_by_split.setdefault(split, {})[name] = None
    splits = ", ".join(f"{split} ({', '.join(names)})" for split, names in names_by_split.items())
    return f"Splits: {splits}. Runs with the same seed have the same split in every row." if splits else ""


def _outdated_note(result: Result, experiment: Experiment, changes: Mapping[str, Any]) -> str:
    """Count the cells whose hyperparameters differ from the current recipes with the changed options."""
    try:
        cells = experiment.cells(Selection(changes=changes))
    except ValueError:  # an option of the command no longer exists
        return ""
    current = {(cell.row, cell.column): cell.config for cell in cells}
    outdated = sum(_is_outdated(cell, current.get((cell.row, cell.column))) for cell in result.cells)
    if not outdated:
        return ""
    count = "All" if outdated == len(result.cells) else f"{outdated} of {len(result.cells)}"
    return f"{count} cells were run with earlier recipes. The result file stores their configurations."


def _is_outdated(cell: CellResult, current: Config | None) -> bool:
    """Compare the options that both configurations set. An option that one of them leaves out has its default value."""
    if current is None or not cell.config:
        return False
    try:
        old, new = make_config(cell.config).hashed_sections, current.hashed_sections
    except ValueError:
        return True
    for sections in (old, new):
        for key in ("seed", "device"):
            del sections["train"][key]
    return old["data"] != new["data"] or any(
        old[section][key] != new[section][key] for section in old for key in old[section].keys() & new[section].keys()
    )


def shorten_reason(reason: str) -> str:
    r"""Return the first sentence of a failure message, for a table cell.

    Example:
        >>> shorten_reason("cora was not found. Looked in:\n  here\n  there"), shorten_reason("out of memory")
        ('cora was not found …', 'out of memory')
    """
    first = re.split(r"(?<=\.)\s|\n", reason.strip(), maxsplit=1)[0]
    if first == reason.strip() and len(first) <= _MAX_LENGTH:
        return first
    return first[:_MAX_LENGTH].rstrip(" .:;") + " …"


def long_reasons(result: Result) -> list[tuple[str, str]]:
    """Return each failure message that was shortened once: the names of its cells and the full message."""
    cells_by_reason: dict[str, list[str]] = {}
    for cell in result.cells:
        if cell.failed and shorten_reason(cell.failed) != cell.failed.strip():
            cells_by_reason.setdefault(cell.failed.strip(), []).append(f"{cell.row} on {cell.column}")
    return [(", ".join(cells), reason) for reason, cells in cells_by_reason.items()]
