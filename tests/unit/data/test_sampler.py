"""Neighbor sampling: contents, distribution and reproducibility of samples, and PyG's loaders."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Data
from torch_geometric.loader import LinkNeighborLoader, NeighborLoader
from torch_geometric.nn import GraphSAGE
from torch_geometric.sampler import NodeSamplerInput, SamplerOutput
from torch_geometric.utils import k_hop_subgraph

from tgnn import TGNN
from tgnn.data.sampler import NeighborSampler
from tgnn.ops import cpp_build as native
from tgnn.ops.graph import CompressedEdges
from tgnn.ops.sampling import sample_neighbors

WAYS = [{}, {"replace": True}, {"fill_up": True}]
BY_NODE = [way | {"by_node": True} for way in WAYS]


def random_edges(nodes: int, edges: int) -> Tensor:
    return torch.randint(nodes, (2, edges), generator=torch.Generator().manual_seed(0))


def sampled(sampler: NeighborSampler, seeds: list[int]) -> SamplerOutput:
    return sampler.sample_from_nodes(NodeSamplerInput(None, torch.tensor(seeds, dtype=torch.int64)))


def assert_same(a: SamplerOutput, b: SamplerOutput) -> None:
    for name in ("node", "row", "col", "edge"):
        assert torch.equal(getattr(a, name), getattr(b, name)), name
    assert a.num_sampled_nodes == b.num_sampled_nodes
    assert a.num_sampled_edges == b.num_sampled_edges


def are_same(a: SamplerOutput, b: SamplerOutput) -> bool:
    return torch.equal(a.node, b.node) and torch.equal(a.edge, b.edge)


@pytest.fixture(params=["compiled", "numpy"])
def code(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test with the C++ kernel and with numpy."""
    if request.param == "numpy":
        monkeypatch.setattr(native, "load", lambda: None)
    elif native.load() is None:
        pytest.skip(f"no kernels: {native.why_unavailable()}")
    return request.param


def random_cases(count: int) -> Iterator[tuple[Tensor, int, list[int], list[int]]]:
    """Yield graphs with isolated nodes, self-loops, parallel edges and hubs, seeds with duplicates, and fan-outs."""
    random = np.random.default_rng(0)
    for _ in range(count):
        nodes = int(random.integers(1, 80))
        edges = torch.from_numpy(random.integers(nodes, size=(2, random.integers(0, 500))))
        edges[1, : len(edges[1]) // 3] = int(random.integers(nodes))
        seeds = random.integers(nodes, size=random.integers(0, 12)).tolist()
        yield edges, nodes, seeds, random.choice([1, 2, 3, 5, 8, 64, 65, 70], size=random.integers(1, 4)).tolist()


# ---- content of a sample ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS + BY_NODE)
def test_numpy_gives_the_same_bits(way, monkeypatch):
    if native.load() is None:
        pytest.skip(f"no kernels: {native.why_unavailable()}")
    for edges, nodes, seeds, fan_out in random_cases(150):
        if "replace" not in way and "fill_up" not in way:
            fan_out = [*fan_out, -1]
        sampler = NeighborSampler(edges, fan_out, num_nodes=nodes, **way)
        wide = NeighborSampler(compressed(edges, nodes)[:2], fan_out, **way)  # int64
        expected, expected_wide = sampled(sampler, seeds), sampled(wide, seeds)
        with monkeypatch.context() as patch:
            patch.setattr(native, "load", lambda: None)
            assert_same(sampled(sampler, seeds), expected)
            assert_same(sampled(wide, seeds), expected_wide)


@pytest.mark.parametrize("way", WAYS)
def test_every_edge_is_there_and_in_its_hop(way, code):
    for edges, nodes, seeds, fan_out in random_cases(60):
        out = sampled(NeighborSampler(edges, fan_out, num_nodes=nodes, **way), seeds)
        assert out.node[: len(seeds)].tolist() == seeds
        new = out.node[len(seeds) :].tolist()
        assert len(set(new)) == len(new)
        assert not set(new) & set(seeds)
        assert torch.equal(edges[0, out.edge], out.node[out.row])
        assert torch.equal(edges[1, out.edge], out.node[out.col])
        assert out.num_sampled_nodes[0] == len(seeds)
        assert sum(out.num_sampled_nodes) == len(out.node)
        assert sum(out.num_sampled_edges) == len(out.edge)
        ends = np.cumsum([0, *out.num_sampled_nodes])
        for hop, (col, edge) in enumerate(
            zip(out.col.split(out.num_sampled_edges), out.edge.split(out.num_sampled_edges))
        ):
            most = fan_out[hop]
            for place in range(ends[hop], ends[hop + 1]):  # each node that is new in the hop before gets its share
                degree = int((edges[1] == out.node[place]).sum())
                found = Counter(edge[col == place].tolist())
                if way:
                    assert found.total() == (most if degree else 0)
                if "fill_up" in way and degree:
                    least = most // degree
                    assert set(found.values()) <= {least, least + 1} - {0}
                    assert least == 0 or len(found) == degree
                if not way:
                    assert set(found.values()) <= {1}
                    assert len(found) == min(most, degree)
            assert bool(((col >= ends[hop]) & (col < ends[hop + 1])).all())


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_full_neighborhoods_are_the_k_hop_subgraph(hops, code):
    for edges, nodes, seeds, _ in random_cases(30):
        out = sampled(NeighborSampler(edges, [-1] * hops, num_nodes=nodes), sorted(set(seeds)))
        subset = k_hop_subgraph(seeds, hops, edges, num_nodes=nodes)[0] if seeds else torch.empty(0, dtype=torch.int64)
        assert out.node.sort().values.tolist() == subset.tolist()
        inner = k_hop_subgraph(seeds, hops - 1, edges, num_nodes=nodes)[0] if seeds else subset
        into = torch.isin(edges[1], inner).nonzero().squeeze(1)  # every edge into a node that is fewer hops away
        assert out.edge.sort().values.tolist() == into.tolist()


def test_a_duplicate_seed(code):
    edges = torch.tensor([[1, 2, 3, 4, 0], [0, 0, 0, 0, 1]])
    out = sampled(NeighborSampler(edges, [2, 1]), [0, 0])
    assert out.node[:2].tolist() == [0, 0]
    assert out.num_sampled_nodes[0] == 2
    assert out.edge[:2].tolist() == out.edge[2:4].tolist()  # the same in-edges both times
    assert out.col.tolist()[:4] == [0, 0, 1, 1]
    out = sampled(NeighborSampler(edges, [-1, -1]), [0, 0])
    assert out.row[out.node[out.row] == 0].tolist() == [0]  # edges out of it come from its first place


def test_edge_ids_are_optional():
    edges = random_edges(10, 50)
    out = sampled(NeighborSampler(edges, [2, 2], edge_ids=False), [1, 2])
    assert out.edge is None
    assert torch.equal(out.row, sampled(NeighborSampler(edges, [2, 2]), [1, 2]).row)


# ---- distribution of samples -----------------------------------------------------------------------------------


def star(degree: int, hubs: int = 1) -> Tensor:
    """Connect each hub (the first nodes) with ``degree`` nodes that have no other edge."""
    return torch.stack([torch.arange(hubs, hubs + degree * hubs), torch.arange(hubs).repeat_interleave(degree)])


def draws(degree: int, hubs: int, k: int, epochs: int, **way: bool) -> np.ndarray:
    """Return the in-edges that the hubs get, one row for each hub and epoch."""
    sampler = NeighborSampler(star(degree, hubs), [k], **way)
    rows = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        rows.append(sampled(sampler, list(range(hubs))).edge.view(hubs, k).numpy() % degree)
    return np.concatenate(rows)


def is_uniform(outcomes: np.ndarray, kinds: int) -> bool:
    counts = np.unique(outcomes, return_counts=True, axis=0)[1]
    counts = np.concatenate([counts, np.zeros(kinds - len(counts))])  # an outcome that never came
    return bool(0.001 < chisquare(counts).pvalue < 0.999)  # nor too even: that would not be random either


@pytest.mark.parametrize("hubs", [1, 400])
@pytest.mark.parametrize(
    ("degree", "k", "way", "outcomes"),
    [(6, 3, {}, 20), (3, 5, {"fill_up": True}, 3), (4, 3, {"replace": True}, 64)],
    ids=["subsets", "one round and two of three", "sequences"],
)
def test_all_outcomes_are_equally_likely(hubs, degree, k, way, outcomes):
    found = draws(degree, hubs, k, 6_000 // hubs, **way)
    assert is_uniform(found if "replace" in way else np.sort(found, axis=1), outcomes)


@pytest.mark.parametrize("k", [20, 100])
@pytest.mark.parametrize("way", [{}, {"replace": True}])
def test_high_degrees(k, way):
    found = draws(100_003, 1, k, 600, **way)
    assert is_uniform(found.reshape(-1) * 50 // 100_003, 50)
    if not way:
        assert all(len(set(row)) == k for row in found.tolist())


def test_nodes_and_hops_are_independent():
    found = draws(5, 2, 1, 4000).reshape(-1, 2)  # what two nodes of a batch get
    assert is_uniform(found, 25)
    chain = torch.stack([torch.arange(5).repeat(5), torch.arange(5).repeat_interleave(5)])  # all to all
    sampler = NeighborSampler(chain, [1, 1])
    pairs = []
    for epoch in range(8000):
        sampler.set_epoch(epoch)
        out = sampled(sampler, [0])
        if len(out.edge) == 2:  # not the loop
            pairs.append(out.node[out.row].tolist())
    assert is_uniform(np.array(pairs), 20)


# ---- reproducibility -------------------------------------------------------------------------------------------


def test_what_decides_a_sample():
    edges = random_edges(300, 9000)

    def sample(seeds: list[int], seed: int = 0, epoch: int = 0) -> SamplerOutput:
        sampler = NeighborSampler(edges, [3, 3], seed=seed)
        sampler.set_epoch(epoch)
        return sampled(sampler, seeds)

    first = sample([5, 7, 9])
    assert_same(sample([5, 7, 9]), first)
    others = [sample([5, 7, 9], seed=seed) for seed in (1, -1, 2**63)] + [sample([5, 7, 9], epoch=1)]
    for other in (*others, sample([5, 7, 10]), sample([5, 7]), sample([7, 5, 9])):
        assert not are_same(other, first)
    assert not are_same(sample([5, 7, 9], seed=1), sample([5, 7, 9], epoch=1))


def tree(out: SamplerOutput, place: int, hops: int) -> tuple:
    """Return a node and, for each of its sampled in-edges, the edge and the tree of its source."""
    into = (out.col == place).nonzero().squeeze(1).tolist() if hops else []
    return int(out.node[place]), tuple((int(out.edge[e]), tree(out, int(out.row[e]), hops - 1)) for e in into)


@pytest.mark.parametrize("way", BY_NODE)
def test_halves_of_a_batch_have_the_neighborhoods_of_the_whole(way, code):
    edges, seeds = random_edges(200, 3000), list(range(0, 60, 2))

    def trees(part: list[int], epoch: int = 0) -> list[tuple]:
        sampler = NeighborSampler(edges, [3, 3, 3], num_nodes=200, seed=5, **way)
        sampler.set_epoch(epoch)
        out = sampled(sampler, part)
        return [tree(out, place, 3) for place in range(len(part))]

    whole = trees(seeds)
    assert trees(seeds[:11]) + trees(seeds[11:]) == whole
    assert trees(seeds[::-1]) == whole[::-1]
    assert all(one != other for one, other in zip(trees(seeds, epoch=1), whole))


@pytest.mark.parametrize("way", WAYS)
def test_the_same_for_every_number_of_threads(way):
    sampler = NeighborSampler(random_edges(20_000, 200_000), [4, 70], **way)
    seeds = list(range(0, 20_000, 5))
    threads = torch.get_num_threads()
    try:
        expected = sampled(sampler, seeds)
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            assert_same(sampled(sampler, seeds), expected)
    finally:
        torch.set_num_threads(threads)


# ---- graphs in every form --------------------------------------------------------------------------------------


def compressed(edges: Tensor, nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``rowptr``, ``col``, and the index of each edge in ``edges``."""
    place = edges[1].argsort(stable=True)
    ptr = torch.searchsorted(edges[1, place], torch.arange(nodes + 1))
    return ptr, edges[0, place], place


def test_all_forms_agree(code):
    edges, seeds = random_edges(40, 500), [0, 5, 39]
    expected = sampled(NeighborSampler(edges, [3, 3], num_nodes=40), seeds)
    ptr, col, place = compressed(edges, 40)
    by_col = EdgeIndex(edges[:, place], sort_order="col", sparse_size=(40, 40))
    arrays = [ptr.numpy(), col.numpy().astype(np.int32)]
    for graph in ((ptr, col), (ptr, col.int()), (ptr.int(), col.int()), arrays, by_col):
        out = sampled(NeighborSampler(graph, [3, 3]), seeds)
        out.edge = place[out.edge]
        assert_same(out, expected)
    for graph in (edges.int(), edges.t().contiguous().t(), EdgeIndex(edges, sparse_size=(40, 40))):
        assert_same(sampled(NeighborSampler(graph, [3, 3]), seeds), expected)


def test_an_edge_index_knows_its_size():
    sampler = NeighborSampler(EdgeIndex([[0], [1]], sparse_size=(9, 9)), [1])
    assert repr(sampler) == "NeighborSampler([1], num_nodes=9, num_edges=1)"
    assert sampled(sampler, [8]).node.tolist() == [8]


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_a_memory_mapped_graph_is_not_copied(kind, tmp_path, code):
    ptr, col, _ = compressed(random_edges(50, 7000), 50)
    if kind == "numpy":
        np.save(tmp_path / "col.npy", col.numpy())
        mapped = np.load(tmp_path / "col.npy", mmap_mode="r")
        address = mapped.ctypes.data
    else:
        col.numpy().tofile(tmp_path / "col")
        mapped = torch.from_file(str(tmp_path / "col"), size=7000, dtype=torch.int64)
        address = mapped.data_ptr()
    sampler = NeighborSampler((ptr, mapped), [4, -1])
    assert sampler._in_edges.index.data_ptr() == address
    assert_same(sampled(sampler, [3, 4]), sampled(NeighborSampler((ptr, col), [4, -1]), [3, 4]))


def test_a_memory_mapped_graph_is_opened_again_when_unpickled(tmp_path):
    ptr, col, _ = compressed(random_edges(50, 7000), 50)
    np.save(tmp_path / "col.npy", col.numpy())
    np.save(tmp_path / "more.npy", np.concatenate([[9, 9], col.numpy()]))
    mapped, more = (np.load(tmp_path / name, mmap_mode="r") for name in ("col.npy", "more.npy"))
    for graph, small in (((ptr, mapped), True), ((ptr, more[2:]), False), ((ptr, col), False)):
        sampler = NeighborSampler(graph, [4, 4])
        text = pickle.dumps(sampler)
        assert (len(text) < 8000) == small
        assert_same(sampled(pickle.loads(text), [3, 4]), sampled(sampler, [3, 4]))


def test_node_indices_above_32_bits(tmp_path, code):
    """The pointers are a sparse file of 17 GB, which must not be read as a whole."""
    last = 2**31 + 10
    path = tmp_path / "ptr"
    with path.open("wb") as file:
        file.truncate(8 * (last + 2))
    ptr = np.memmap(path, np.int64, "r+")
    ptr[last:] = [0, 3]
    ptr[last + 1] = 3
    in_edges = CompressedEdges(torch.from_numpy(ptr), torch.tensor([last, 2**31 + 1, 7]), None)
    out = sample_neighbors(in_edges, torch.tensor([last]), [-1, 2])
    assert out.node.tolist() == [last, 2**31 + 1, 7]
    assert out.row.tolist() == [0, 1, 2]
    assert out.nodes_per_hop == [1, 2, 0]


# ---- errors ----------------------------------------------------------------------------------------------------

EDGES = torch.tensor([[0, 1, 2], [1, 2, 0]])
PTR, COL = torch.tensor([0, 1, 2, 3]), torch.tensor([2, 0, 1])


@pytest.mark.parametrize(
    ("graph", "fan_out", "way", "error", "words"),
    [
        (EDGES, [5, 0], {}, ValueError, r"fan_out\[1\] is 0, but must be .* 1 or more, or -1 for all"),
        (EDGES, [-2], {}, ValueError, r"fan_out\[0\] is -2"),
        (EDGES, [], {}, ValueError, "fan_out is empty"),
        (EDGES, 5, {}, TypeError, "fan_out must be a list of integers, one for each hop, got 5"),
        (EDGES, [2.5], {}, TypeError, r"got \[2.5\]"),
        (EDGES, [5, -1], {"replace": True}, ValueError, r"fan_out \[5, -1\] contains -1.*needs replace=False"),
        (EDGES, [5], {"replace": True, "fill_up": True}, ValueError, "use either replace or fill_up"),
        (EDGES, [5], {"num_nodes": 2}, ValueError, r"contains 2, but must lie in \[0, num_.* - 1\] = \[0, 1\]"),
        (EDGES - 1, [5], {}, ValueError, "contains -1"),
        (EDGES.float(), [5], {}, TypeError, "int64 or int32 on the CPU, got torch.float32"),
        (EDGES.t(), [5], {}, TypeError, r"got a tensor \[3, 2\]"),
        (Data(edge_index=EDGES), [5], {}, TypeError, "got Data; pass data.edge_index and num_nodes=data.num_nodes"),
        ((PTR, COL), [5], {"num_nodes": 4}, ValueError, "rowptr has 4 entries.* one more than 4 nodes"),
        ((PTR[:0], COL), [5], {}, ValueError, "rowptr has 0 entries"),
        ((PTR[:3], COL), [5], {}, ValueError, "rowptr ranges from 0 to 2, but must range from 0 to 3"),
        ((PTR + 1, COL), [5], {}, ValueError, "ranges from 1 to 4"),
        ((torch.tensor([0, 2, 1, 3]), COL), [5], {}, ValueError, r"rowptr decreases after row 1 \(from 2 to 1\)"),
        ((PTR.float(), COL), [5], {}, TypeError, "rowptr must be int64 or int32.* torch.float32"),
        ((PTR, COL.numpy().astype(np.uint32)), [5], {}, TypeError, r"col must be int64 or int32.* uint32 array \[3\]"),
        ((PTR, torch.arange(6)[::2]), [5], {}, TypeError, "col must be contiguous.*copy it first"),
        ((PTR, COL.view(1, 3)), [5], {}, TypeError, "one-dimensional"),
        ((PTR, [2, 0, 1]), [5], {}, TypeError, "got list"),
    ],
)
def test_invalid_arguments(graph, fan_out, way, error, words):
    with pytest.raises(error, match=words):
        NeighborSampler(graph, fan_out, **way)


def test_invalid_seeds(code):
    sampler = NeighborSampler(EDGES, [2])
    for seed in (3, -1, 2**40):
        with pytest.raises(
            ValueError, match=rf"Seed {seed} is not in the graph, which has the nodes 0 to 2; .*num_nodes"
        ):
            sampled(sampler, [0, seed])
    for seeds in (torch.tensor([0.5]), torch.tensor([[0]])):
        with pytest.raises(TypeError, match="one-dimensional tensor of int64 or int32"):
            sampler.sample_from_nodes(NodeSamplerInput(None, seeds))


def test_invalid_edges_are_an_error_when_they_are_sampled(code):
    for wrong in (-3, 3):
        sampler = NeighborSampler((PTR, torch.tensor([2, wrong, 1])), [-1])
        assert sampled(sampler, [0]).node.tolist() == [0, 2]
        with pytest.raises(ValueError, match=rf"Edge 1 has source {wrong}, but the graph has the nodes 0 to 2"):
            sampled(sampler, [0, 1])
    ptr = PTR.clone()
    sampler = NeighborSampler((ptr, COL), [-1, 2])
    ptr[1] = 2**40
    with pytest.raises(ValueError, match=rf"edges into node 0 would be 0 to {2**40} of 3"):
        sampled(sampler, [0])


def test_node_types_and_times_are_not_supported():
    sampler, seeds = NeighborSampler(EDGES, [2]), torch.tensor([0])
    for options, message in (({"input_type": "paper"}, "'paper'.* homogeneous"), ({"time": seeds}, "input_time")):
        with pytest.raises(ValueError, match=message):
            sampler.sample_from_nodes(NodeSamplerInput(None, seeds, **options))


# ---- PyG's loaders ---------------------------------------------------------------------------------------------

NODES = 200


def data() -> Data:
    edges = random_edges(NODES, 2000)
    random = torch.Generator().manual_seed(1)
    return Data(
        x=torch.randn(NODES, 6, generator=random),
        y=torch.arange(NODES),
        edge_index=edges,
        edge_attr=torch.randn(2000, 3, generator=random),
    )


def loader(whole: Data, fan_out: list[int], **options: object) -> NeighborLoader:
    sampler = NeighborSampler(whole.edge_index, fan_out, num_nodes=whole.num_nodes)
    return NeighborLoader(whole, sampler.num_neighbors, neighbor_sampler=sampler, **options)


def batches(of: NeighborLoader, epochs: int) -> list[Data]:
    torch.manual_seed(5)
    return [batch for _ in range(epochs) for batch in of]


def test_loader():
    whole, mask = data(), torch.arange(NODES) % 3 == 0
    seen = []
    for batch in loader(whole, [4, 3], input_nodes=mask, batch_size=16, shuffle=True):
        assert torch.equal(batch.x, whole.x[batch.n_id])
        assert torch.equal(batch.edge_attr, whole.edge_attr[batch.e_id])
        assert torch.equal(batch.n_id[batch.edge_index], whole.edge_index[:, batch.e_id])
        assert torch.equal(batch.n_id[: batch.batch_size], batch.input_id)
        assert batch.batch is None
        assert sum(batch.num_sampled_nodes) == batch.num_nodes
        assert sum(batch.num_sampled_edges) == batch.num_edges
        seen += batch.n_id[: batch.batch_size].tolist()
    assert sorted(seen) == mask.nonzero().squeeze(1).tolist()


def test_loader_gives_the_same_batches_for_every_number_of_workers():
    whole = data()
    plain, *others = (
        batches(loader(whole, [3, 3], batch_size=32, shuffle=True, num_workers=workers), 2) for workers in (0, 0, 2)
    )
    assert len(plain) == 14
    for other in others:
        for a, b in zip(plain, other, strict=True):
            assert torch.equal(a.n_id, b.n_id)
            assert torch.equal(a.e_id, b.e_id)
            assert torch.equal(a.edge_attr, b.edge_attr)
    epochs = [{tuple(batch.n_id.tolist()) for batch in part} for part in (plain[:7], plain[7:])]
    assert not epochs[0] & epochs[1]  # the second epoch samples anew


@pytest.mark.parametrize("workers", [0, 2])
def test_set_epoch_changes_the_samples(workers):
    """Persistent workers see the epoch, too."""
    of = loader(data(), [3, 3], batch_size=100, num_workers=workers, persistent_workers=workers > 0)
    edges = []
    for epoch in (0, 1, 0):
        of.node_sampler.set_epoch(epoch)
        edges.append([batch.e_id.tolist() for batch in of])
    assert edges[0] == edges[2]
    assert edges[0] != edges[1]


@pytest.mark.slow
def test_trimming():
    whole = data()
    model = GraphSAGE(6, 8, 3, 4).eval()
    with torch.no_grad():
        expected = model(whole.x, whole.edge_index)
        for batch in loader(whole, [-1, -1, -1], batch_size=50):
            counts = (batch.num_sampled_nodes, batch.num_sampled_edges)
            trimmed = model(batch.x, batch.edge_index, None, None, None, None, *counts)[: batch.batch_size]
            torch.testing.assert_close(trimmed, expected[batch.n_id[: batch.batch_size]])


@pytest.mark.parametrize("model", [GraphSAGE(6, 8, 2, 4), TGNN(6, 8, 2, 4, rank=4)], ids=["GraphSAGE", "TGNN"])
def test_layer_wise_inference(model):
    whole = data()
    model = model.eval()
    with torch.no_grad():
        expected = model(whole.x, whole.edge_index)
    for cache in (False, True):
        found = model.inference(loader(whole, [-1], batch_size=64), cache=cache)
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("negatives", [None, "binary"])
def test_link_loader(negatives):
    whole = data()
    sampler = NeighborSampler(whole.edge_index, [3, 3], num_nodes=NODES)
    of = LinkNeighborLoader(
        whole,
        sampler.num_neighbors,
        whole.edge_index[:, :100],
        neighbor_sampler=sampler,
        neg_sampling=negatives,
        batch_size=20,
    )
    for batch in of:
        ends = batch.n_id[batch.edge_label_index][:, :20]
        assert torch.equal(ends, whole.edge_index[:, batch.input_id])
        assert torch.equal(batch.edge_attr, whole.edge_attr[batch.e_id])
