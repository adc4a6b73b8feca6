"""Load a data set by name or from a path, with its split."""

from __future__ import annotations

import os
from pathlib import Path

from tgnn.data.catalog import CATALOG
from tgnn.data.catalog.entry import CatalogEntry
from tgnn.data.codes import CODES
from tgnn.data.dataset_info import DatasetInfo, LoadedData, infer_dataset_info, statistics
from tgnn.data.download.locate import LocatedFiles, find_in_root, obtain
from tgnn.data.readers.detect import detect_format, read_path
from tgnn.data.splits import choose_split, labeled_mask, protocols
from tgnn.data.tables.frames import log_warnings
from tgnn.data.tables.schema import ReadOptions
from tgnn.utils.suggest import closest_match

_DEFAULTS = ReadOptions()
_NODE_FORMATS = ("table", "gnn-benchmark", "graph", "graph on disk")


def list_datasets() -> list[str]:
    """Return the names of all data sets in the catalog.

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
    options: ReadOptions = _DEFAULTS,
) -> LoadedData:
    """Load a data set of the catalog or your own data. The function never prompts.

    Args:
        name_or_path: A name from :func:`list_datasets`, or the path of your own data: a folder of tables, a ``.npz``
            file, a graph on disk, a folder of TU files or a CSV file of SMILES (docs/own_data.md).
        root: Folder that is searched before the cache and the network. It is never written to. Default: the
            environment variable ``TGNN_DATA``.
        offline: If ``True``, do not access the network.
        split: Split protocol. Default: that of the data set. ``tgnn data splits NAME`` lists the available ones.
        seed: Random seed of the split. For the protocol ``fold`` it is the number of the fold.
        options: Columns to predict, column of ids and task of your own tables or molecules
            (:class:`~tgnn.data.tables.schema.ReadOptions`).

    Returns:
        PyG's :class:`~torch_geometric.data.Data` for a node task, a
        :class:`~tgnn.data.on_disk.disk_graph.DiskGraph` if the graph stays on disk, or a
        :class:`~tgnn.data.GraphDataset` for a graph task. ``data.info`` holds the task, the metric and the source
        (:class:`~tgnn.data.DatasetInfo`). ``data.split`` holds the training, validation and test sets
        (:class:`~tgnn.data.Split`). Unlabeled data has no split.

    Example:
        >>> data = load("karate")
        >>> data.num_nodes, data.info.task, data.info.metric
        (34, 'node classification', 'accuracy')
    """
    name = os.fspath(name_or_path)
    if name not in CATALOG:
        data = _load_from_path(name, options)
    elif options.target or options.id or options.task:
        raise ValueError(f"--target, --id and --task are for your own data, but {name} is a data set of the catalog")
    else:
        data = _load_from_catalog(CATALOG[name], root, offline)
    if data.y is not None and bool(labeled_mask(data.y).any()):
        default = CATALOG[name].default_split if name in CATALOG else default_protocol(data)
        data.split = choose_split(data, split or default, seed)
    return data


def get_entry(name: str) -> CatalogEntry:
    """Return the catalog entry of a data set. The error for an unknown name suggests similar names."""
    if name not in CATALOG:
        raise ValueError(f"the catalog has no data set {name!r}; {_suggest(name)}")
    return CATALOG[name]


def find_path(name: str) -> Path:
    """Return the path of the user's own data. The error for a missing path suggests similar catalog names."""
    path = Path(name).expanduser()
    if not path.exists():
        hint = "" if os.sep in name or path.suffix else f"; {_suggest(name)}"
        raise FileNotFoundError(f"{name} is neither a file or folder nor a data set of the catalog{hint}")
    return path


def task_level(name: str) -> str:
    """Return whether a name or path is a node task (``"node"``) or a graph task (``"graph"``), without reading it.

    Example:
        >>> task_level("zinc")
        'graph'
    """
    if name in CATALOG:
        return CATALOG[name].level
    return "node" if detect_format(find_path(name)) in _NODE_FORMATS else "graph"


def _suggest(name: str) -> str:
    if name in CODES:
        return f"it is an error-correcting code: run `tgnn train {name}`, or call tgnn.data.codes.load_code({name!r})"
    similar = closest_match(name, CATALOG)
    return f"did you mean {similar}?" if similar else "tgnn data list shows all names"


def _load_from_catalog(entry: CatalogEntry, root: str | os.PathLike[str] | None, offline: bool) -> LoadedData:
    def read(found: LocatedFiles) -> LoadedData:
        data = found.layout.read(found.folder)
        differs = found.differs or getattr(data, "origin", "")
        if differs and folder is not None and entry.add_published is not None:
            differs = entry.add_published(data, folder) or differs
        return _with_info(entry, data, found.source, differs, exact=found.layout.exact or not differs)

    given = root if root is not None else os.environ.get("TGNN_DATA") or None
    folder = None if given is None else Path(given).expanduser()
    if entry.embedded is None:
        return obtain(entry, folder, offline, read)
    if folder is not None and entry.layouts and (found := find_in_root(entry, folder)):
        return read(found)
    return _with_info(entry, entry.embedded(), "installed with the package", "", exact=True)


def _with_info(entry: CatalogEntry, data: LoadedData, source: str, differs: str, exact: bool) -> LoadedData:
    """Compare the statistics with the catalog, and describe the data.

    If the source is known to differ from the official files, only the numbers of features and outputs must agree.
    """
    actual = statistics(data)
    for what, expected in entry.statistics.items():
        if actual[what] != expected and (exact or what in ("features", "outputs")):
            raise ValueError(
                f"the files are not {entry.name}: they have {actual[what]:,} {what}, but {entry.name} has {expected:,}"
            )
    outputs = entry.statistics["outputs"]
    data.info = DatasetInfo(
        entry.name, entry.level, entry.target, entry.metric, outputs, source, differs, entry.stored_split
    )
    return data


def default_protocol(data: LoadedData) -> str:
    """Use the split that is stored with the user's own data, else a stratified one."""
    first = next(iter(protocols(data)))
    return first if first == data.info.stored_split else "stratified"


def _load_from_path(name: str, options: ReadOptions) -> LoadedData:
    path = find_path(name)
    data, report = read_path(path, options=options)
    report.raise_for_errors()
    log_warnings(report, path)
    data.info = infer_dataset_info(data, path.resolve().name, f"files in {path}")
    return data
