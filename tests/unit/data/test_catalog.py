"""The catalog, loading by name, and the protocols; on the real files where they are beside the project."""

from __future__ import annotations

import dataclasses
import json
import shutil
from importlib.resources import files
from pathlib import Path

import pytest
import torch
from tests.unit.data.test_pickled_files import write_planetoid
from torch_geometric.data import Data

from tgnn.data.catalog import CATALOG
from tgnn.data.catalog.entry import DownloadSource
from tgnn.data.convert import write
from tgnn.data.dataset_info import content_hash, infer_dataset_info, statistics
from tgnn.data.download.locate import DatasetUnavailableError
from tgnn.data.graph_dataset import GraphDataset
from tgnn.data.load import list_datasets, load
from tgnn.data.readers.graph_npz import read_graph, read_graphs
from tgnn.data.splits import choose_split

SHARED = Path(__file__).parents[4] / "shared" / "data"
needs_shared = pytest.mark.skipif(
    not SHARED.exists(), reason="needs real data in ../shared/data, not part of the project"
)

OF_THE_PAPER = [
    "cora",
    "citeseer",
    "pubmed",
    "ogbn-products",
    "ogbn-arxiv",
    "ogbn-proteins",
    "zinc",
    "cifar10",
    "mnist",
    "ogbg-molhiv",
    "mutag",
    "proteins",
    "imdb-binary",
    "imdb-multi",
    "collab",
]
EMBEDDED = ["cora", "karate", "digits", "digits-graphs"]
QUICK = [name for name in OF_THE_PAPER if not name.startswith("ogbn") and name not in ("mnist", "cifar10", "collab")]


@pytest.fixture(autouse=True)
def no_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TGNN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TGNN_DATA", raising=False)


def test_every_data_set_of_the_paper_has_a_name():
    assert {*OF_THE_PAPER, *EMBEDDED, "amazon-computers", "blogcatalog"} == set(list_datasets())


@pytest.mark.parametrize("name", list(CATALOG))
def test_an_entry_says_everything(name):
    entry = CATALOG[name]
    assert entry.level in ("node", "graph")
    assert entry.target in ("classes", "labels", "number")
    assert entry.metric in ("accuracy", "roc-auc", "mae")
    assert {"features", "outputs"} <= set(entry.statistics)
    assert all((entry.title, entry.license, entry.citation, entry.official, entry.default_split))
    assert entry.embedded or entry.sources
    for source in entry.sources:
        assert source.layout in entry.layouts


@pytest.mark.parametrize("name", EMBEDDED)
def test_embedded_sets_need_nothing(name):
    data = load(name, offline=True)
    assert data.info.source == "installed with the package"
    assert statistics(data).items() >= CATALOG[name].statistics.items()


@needs_shared
@pytest.mark.parametrize("name", [*QUICK, "amazon-computers", "blogcatalog"])
def test_real_files(name):
    data = load(name, root=SHARED, offline=True)
    assert str(SHARED) in data.info.source
    assert data.info.level == ("graph" if isinstance(data, GraphDataset) else "node")
    seen = torch.cat([data.split.train, data.split.val, data.split.test])
    assert len(seen.unique()) == len(seen)
    assert (data.info.differs != "") == (name in ("zinc", "ogbg-molhiv", "mutag"))


@needs_shared
@pytest.mark.parametrize("name", ["collab"])
def test_large_real_files(name):
    data = load(name, root=SHARED, offline=True)
    assert len(data) == 5000
    assert data.x.dtype == torch.int64


@needs_shared
def test_published_folds_lie_beside_the_files():
    data = load("mutag", root=SHARED, offline=True, split="published-fold", seed=3)
    assert data.split.test.tolist() == sorted(json.loads((SHARED / "tu/MUTAG/10fold_test_idx.json").read_text())[3])


# ---- Cora, which is installed with tgnn ------------------------------------------------------------------------

CORA_HASHES = {
    "public": ("0d16470b0077e10a", "0d16470b0077e10a"),
    "per-class-quota": ("3fe4ba579e687c4f", "b31e16a7e749e318"),
    "stratified": ("13f411a42bb36a74", "36e2eb0a3de1bda0"),
    "fold": ("f8ad62bbc618364d", "58a1b98996e76375"),
}
"""Split hashes of Planetoid's Cora with the seeds 0 and 1, as stored results have them."""


def test_the_installed_cora_has_the_hashes_of_planetoids_files():
    data = load("cora", offline=True)
    assert content_hash(data) == "95a17011d49ce6e7"
    for protocol, hashes in CORA_HASHES.items():
        assert tuple(choose_split(data, protocol, seed).hash for seed in (0, 1)) == hashes, protocol
    assert data.info.differs == ""


def test_the_public_split_of_cora():
    data = load("cora", split="public", offline=True)
    assert (len(data.split.train), len(data.split.val), len(data.split.test)) == (140, 500, 1000)


@needs_shared
def test_the_installed_cora_equals_planetoids_files():
    installed, official = load("cora", offline=True), load("cora", root=SHARED, offline=True)
    assert installed.info.source == "installed with the package"
    assert str(SHARED) in official.info.source
    assert set(installed.keys()) == set(official.keys())
    for part in ("crow_indices", "col_indices", "values"):
        ours, theirs = getattr(installed.x, part)(), getattr(official.x, part)()
        assert ours.dtype == theirs.dtype
        assert torch.equal(ours, theirs), part
    for name in ("edge_index", "y", "train_mask", "val_mask", "test_mask"):
        assert installed[name].dtype == official[name].dtype
        assert torch.equal(installed[name], official[name]), name
    assert content_hash(installed) == content_hash(official)


def test_the_installed_cora_is_small_and_has_its_license_beside_it():
    folder = files("tgnn.data.catalog")
    assert len((folder / "cora.npz").read_bytes()) < 100_000
    terms = (folder / "cora.LICENSE.md").read_text()
    assert all(source in terms for source in ("Sen", "2008", "Yang", "2016", "The MIT License"))


def test_a_root_without_cora_gives_the_installed_one(tmp_path, monkeypatch):
    monkeypatch.setenv("TGNN_DATA", str(tmp_path))
    assert load("cora").info.source == "installed with the package"


@needs_shared
def test_the_two_orders_of_mutag_are_distinguished(tmp_path):
    ours, official = (load("mutag", root=SHARED / place, offline=True) for place in ("tu", "tu_original"))
    assert "without edge labels" in ours.info.differs
    assert ours.edge_attr is None
    assert official.info.differs == ""
    assert official.edge_attr is not None


@needs_shared
def test_a_note_is_no_leave_to_have_other_statistics(tmp_path, monkeypatch):
    shutil.copytree(SHARED / "tu" / "MUTAG", tmp_path / "MUTAG")
    labels = tmp_path / "MUTAG" / "raw" / "MUTAG_graph_labels.txt"
    indicator = tmp_path / "MUTAG" / "raw" / "MUTAG_graph_indicator.txt"
    indicator.write_text(indicator.read_text() + "189\n")
    labels.write_text(labels.read_text() + "1\n")
    nodes = tmp_path / "MUTAG" / "raw" / "MUTAG_node_labels.txt"
    nodes.write_text(nodes.read_text() + "0\n")
    with pytest.raises(ValueError, match="the files are not mutag: they have 189 graphs"):
        load("mutag", root=tmp_path, offline=True)


@needs_shared
def test_what_was_fetched_is_checked_before_it_is_kept(tmp_path, monkeypatch):
    bad, good = tmp_path / "bad", SHARED / "tu" / "MUTAG" / "raw"
    shutil.copytree(SHARED / "tu" / "IMDB-BINARY" / "raw", bad)
    for path in list(bad.iterdir()):
        path.rename(bad / path.name.replace("IMDB-BINARY", "MUTAG"))
    count = len((bad / "MUTAG_graph_indicator.txt").read_text().split())
    (bad / "MUTAG_node_labels.txt").write_text("0\n" * count)
    entry = CATALOG["mutag"]

    def source(folder: Path) -> DownloadSource:
        return DownloadSource(
            folder.name, lambda to, shelf: shutil.copytree(folder, to, dirs_exist_ok=True), entry.layouts[0]
        )

    changed = dataclasses.replace(entry, sources=(source(bad), source(good)))
    monkeypatch.setitem(CATALOG, "mutag", changed)
    assert load("mutag").info.source == "raw"
    assert load("mutag", offline=True).info.source == "raw"
    monkeypatch.setitem(CATALOG, "mutag", dataclasses.replace(entry, sources=(source(bad),)))
    with pytest.raises(DatasetUnavailableError, match="bad: the files are not mutag: they have 1,000 graphs"):
        load("mutag")


def test_graphs_of_another_set_at_the_top_of_a_root_are_passed_over(tmp_path):
    write(load("digits-graphs"), tmp_path / "graphs.npz")
    for name in ("mutag", "zinc", "mnist"):
        with pytest.raises(DatasetUnavailableError, match="not found"):
            load(name, root=tmp_path, offline=True)


def test_root_may_come_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("TGNN_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(
        NotADirectoryError,
        match=r"nowhere is not a folder, but was given as the folder of cora \(--root, root= or TGNN_DATA",
    ):
        load("cora", offline=True)
    monkeypatch.setenv("TGNN_DATA", str(tmp_path))
    with pytest.raises(DatasetUnavailableError, match=r"files in .*not found: ind\.citeseer"):
        load("citeseer", offline=True)


def test_other_data_under_the_name_is_refused(tmp_path):
    place = tmp_path / "Cora" / "raw"
    place.mkdir(parents=True)
    write_planetoid(place, "cora")
    with pytest.raises(ValueError, match=r"ind\.cora\.\w+ is not the published file"):
        load("cora", root=tmp_path, offline=True)


def test_statistics_are_checked(monkeypatch):
    monkeypatch.setitem(
        CATALOG, "karate", dataclasses.replace(CATALOG["karate"], statistics={"nodes": 35, "outputs": 4})
    )
    with pytest.raises(ValueError, match="the files are not karate: they have 34 nodes, but karate has 35"):
        load("karate")


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
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        load(name)


# ---- task and content hash -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "target", "outputs"),
    [
        (torch.tensor([0, 2, 1]), "classes", 3),
        (torch.tensor([0.5, 1.5, float("nan")]), "number", 1),
        (torch.tensor([[0.0, 1.0], [1.0, float("nan")], [0.0, 0.0]]), "labels", 2),
        (torch.tensor([[0.5, 1.0], [1.0, 2.0], [0.0, 0.0]]), "number", 2),
    ],
)
def test_the_target_is_inferred_from_the_labels(y, target, outputs):
    about = infer_dataset_info(Data(y=y, num_nodes=3), "mine", "")
    assert (about.target, about.outputs) == (target, outputs)


def test_the_content_hash_distinguishes_data():
    one, other = load("karate"), load("karate")
    assert content_hash(one) == content_hash(other)
    other.edge_index[0, 0] = 5
    assert content_hash(one) != content_hash(other)


# ---- convert ---------------------------------------------------------------------------------------------------


def test_graphs_are_the_same_after_conversion(tmp_path):
    graphs = load("digits-graphs")
    write(graphs, tmp_path / "graphs.npz")
    again = read_graphs(tmp_path / "graphs.npz")
    assert len(again) == len(graphs)
    for number in (0, 17, 1796):
        for name, value in graphs[number].to_dict().items():
            assert torch.equal(torch.as_tensor(again[number][name]), torch.as_tensor(value))


def test_a_graph_is_the_same_after_conversion(tmp_path):
    data = load("digits")
    write(data, tmp_path / "graph.npz")
    again = read_graph(tmp_path / "graph.npz")
    for name in ("x", "edge_index", "y"):
        assert torch.equal(again[name], data[name])
