"""``load``: a data set by name or from a path, with its split, ready to train."""

from __future__ import annotations

import difflib
import logging
import os
from pathlib import Path

from tgnn.data import dataset_info as telling
from tgnn.data.catalog import CATALOG
from tgnn.data.catalog.entry import Entry, LoadedData
from tgnn.data.dataset_info import DatasetInfo
from tgnn.data.download.locate import LocatedData, obtain
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.readers.detect import read_path
from tgnn.data.split_protocols import choose_split, labelled, protocols

logger = logging.getLogger("tgnn")


def list_datasets() -> list[str]:
    """Names that :func:`load` knows.

    Example:
        >>> "cora" in list_datasets()
        True
    """
    return list(CATALOG)


def load(
    name_or_path: str | os.PathLike[str],
    root: str | os.PathLike[str] | None = None,
    offline: bool = False,
    *,
    split: str | None = None,
    seed: int = 0,
) -> LoadedData:
    """A data set, ready to train: PyG's ``Data`` with labelled nodes, a graph that stays on disk, or a list of graphs.

    ``data.split`` holds its :class:`~tgnn.data.splits.Split` (none without labels) and ``data.info`` what is to be
    predicted, how that is scored, and which source served. Nothing ever prompts.

    Args:
        name_or_path: A name of :func:`list_datasets`, or the user's own data: a folder of tables, a ``.npz``, a graph
            on disk, a folder of TU files, a CSV of SMILES (docs/own_data.md).
        root: Folder to look into before the cache and the network (default: ``$TGNN_DATA``). It is only read.
        offline: Whether to stay away from the network.
        split: Protocol, if not the default of the data set; ``tgnn data splits NAME`` lists them.
        seed: What a split is drawn with; for folds, the number of the fold.

    Example:
        >>> data = load("karate")
        >>> data.num_nodes, data.info.metric
        (34, 'accuracy')
    """
    name = os.fspath(name_or_path)
    data = _from_catalog(CATALOG[name], root, offline) if name in CATALOG else _from_path(name)
    if data.y is not None and bool(labelled(data.y).any()):
        default = CATALOG[name].split if name in CATALOG else _own_default(data)
        data.split = choose_split(data, split or default, seed)
    return data


def get_entry(name: str) -> Entry:
    """The catalog's entry, or an error that names the nearest."""
    if name not in CATALOG:
        raise ValueError(f"there is no data set {name!r} in the catalog: {_hint(name)}")
    return CATALOG[name]


def _hint(name: str) -> str:
    near = difflib.get_close_matches(name.lower(), CATALOG, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else "tgnn data list shows all names"


def _from_catalog(entry: Entry, root: str | os.PathLike[str] | None, offline: bool) -> LoadedData:
    if entry.embedded is not None:
        return _described(entry, entry.embedded(), "installed with the package", "", exact=True)

    def read(found: LocatedData) -> LoadedData:
        data, differs = found.form.read(found.folder), found.differs
        if isinstance(data, GraphDataset) and data.origin and not differs:
            differs = data.origin
        return _described(entry, data, found.source, differs, exact=found.form.exact or not differs)

    chosen = root if root is not None else os.environ.get("TGNN_DATA") or None
    data = obtain(entry, None if chosen is None else Path(chosen).expanduser(), offline, read).data
    assert data is not None  # read gives some, or raises
    return data


def _described(entry: Entry, data: LoadedData, source: str, differs: str, exact: bool) -> LoadedData:
    _check_facts(entry, data, exact)
    data.info = DatasetInfo(
        entry.name, entry.level, entry.target, entry.metric, entry.facts["outputs"], source, differs, entry.stored_split
    )
    return data


def _check_facts(entry: Entry, data: LoadedData, exact: bool) -> None:
    """Statistics that do not agree mean other data. What is known to differ need only ask the same question."""
    found = telling.statistics(data)
    for what, wanted in entry.facts.items():
        if found[what] != wanted and (exact or what in ("features", "outputs")):
            raise ValueError(
                f"this is not {entry.name}: it has {found[what]:,} {what}, and {entry.name} has {wanted:,}"
            )


def _own_default(data: LoadedData) -> str:
    """The split that comes with the user's own data, else a stratified one."""
    first = next(iter(protocols(data)))
    return first if first == data.info.stored_split else "stratified"


def find_path(name: str) -> Path:
    """The path of the user's own data, or an error that names what may have been meant."""
    path = Path(name).expanduser()
    if not path.exists():
        hint = "" if os.sep in name or path.suffix else f": {_hint(name)}"
        raise FileNotFoundError(f"there is no file or folder {name}, and no data set of that name in the catalog{hint}")
    return path


def _from_path(name: str) -> LoadedData:
    path = find_path(name)
    data, report = read_path(path)
    report.raise_for_errors()
    for finding in report.findings:
        if finding.level == "warning":
            logger.warning("%s: %s", path.name, finding)
    data.info = telling.describe(data, path.resolve().name, f"files in {path}")
    return data
