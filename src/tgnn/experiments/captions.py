"""Titles, notes and layouts of results, looked up when a result is rendered.

They come from the definition of the experiment, so that old result files show the current wording.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from tgnn.data.catalog import CATALOG
from tgnn.experiments.definitions import EXPERIMENTS
from tgnn.experiments.experiment import Experiment, Selection
from tgnn.experiments.results import CellResult, Result
from tgnn.training.config import Config, make_config

_SIMILAR = 0.6
"""Similarity from which a stored note counts as an earlier wording of a note in the catalog."""


def result_title(result: Result) -> str:
    """Return the title of the experiment, or the name of the result if the experiment is unknown."""
    experiment = EXPERIMENTS.get(result.name)
    return result.name if experiment is None else experiment.title


def result_layout(result: Result) -> str:
    """Return how the result is displayed (:class:`~tgnn.experiments.experiment.Experiment`)."""
    experiment = EXPERIMENTS.get(result.name)
    return "table" if experiment is None else experiment.layout


def result_notes(result: Result) -> list[str]:
    """Return the notes of the experiment, the splits, outdated hyperparameters and notes on the data of each column."""
    experiment = EXPERIMENTS.get(result.name)
    notes = [] if experiment is None else list(experiment.notes)
    if experiment is not None and experiment.measure is not None:
        return notes
    splits = _split_note(result.cells)
    outdated = "" if experiment is None else _outdated_note(result, experiment)
    columns = dict.fromkeys(f"{cell.column}: {note}" for cell in result.cells if (note := data_note(cell)))
    return [*notes, *(note for note in (splits, outdated) if note), *columns]


def data_note(cell: CellResult) -> str:
    """Return how the data of a cell differs from the official files, in the current wording of the catalog.

    A note that resembles none of the catalog's is returned as it is stored.
    """
    entry = CATALOG.get(_option(cell.config, "data", "name"))
    if not cell.note or entry is None:
        return cell.note
    known = [source.differs for source in entry.sources]
    known += [note for layout in entry.layouts for note in layout.notes.values()]
    similarity, note = max(((_similarity(note, cell.note), note) for note in known), default=(0.0, ""))
    return note if similarity >= _SIMILAR else cell.note


def _similarity(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()


def _split_note(cells: Sequence[CellResult]) -> str:
    names_by_split: dict[str, dict[str, None]] = {}
    for cell in cells:
        name, split = (_option(cell.config, "data", key) for key in ("name", "split"))
        split = split or (CATALOG[name].default_split if name in CATALOG else "")
        if split:
            names_by_split.setdefault(split, {})[name] = None
    splits = ", ".join(f"{split} ({', '.join(names)})" for split, names in names_by_split.items())
    return f"Splits: {splits}. Runs with the same seed have the same split in every row." if splits else ""


def _outdated_note(result: Result, experiment: Experiment) -> str:
    """Count the cells whose hyperparameters differ from the current recipes."""
    current = {(cell.row, cell.column): cell.config for cell in experiment.cells(Selection())}
    outdated = [
        cell
        for cell in result.cells
        if (cell.row, cell.column) in current and _is_outdated(cell, current[cell.row, cell.column])
    ]
    if not outdated:
        return ""
    count = "All" if len(outdated) == len(result.cells) else f"{len(outdated)} of {len(result.cells)}"
    return f"{count} cells were run with earlier recipes. The result file stores their configurations."


def _is_outdated(cell: CellResult, current: Config) -> bool:
    """Compare the options that both configurations set. An option that one of them leaves out has its default value."""
    try:
        stored = make_config(cell.config)
    except ValueError:
        return bool(cell.config)
    if not cell.config or stored.hash == current.hash:
        return False
    old, new = stored.model_dump(mode="json"), current.model_dump(mode="json")
    ignored = {("data", key) for key in ("root", "offline")}
    ignored |= {("train", key) for key in ("seed", "device", "threads", "workers", "save_every", "track")}
    return any(
        old[section][key] != new[section][key]
        for section in old
        for key in old[section].keys() & new[section].keys()
        if (section, key) not in ignored
    )


def _option(config: Mapping[str, Any], section: str, key: str) -> str:
    options = config.get(section)
    return str(options.get(key) or "") if isinstance(options, Mapping) else ""
