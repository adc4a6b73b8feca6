"""Invalid input raises an error with the value and the expected range."""

from __future__ import annotations

import pytest
import torch
from torch_geometric import EdgeIndex

from tgnn.ops import exclusive_product, neighbor_product, segment_product, use_backend

Z = torch.ones(3, 2)
EDGES = torch.tensor([[0, 1], [1, 2]])


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: neighbor_product(Z, torch.tensor([[0, 3], [1, 2]])), ValueError, r"sources.* contains 3.*\[0, 2\]"),
        (lambda: neighbor_product(Z, torch.tensor([[0, 1], [1, -1]])), ValueError, r"destinations.* contains -1"),
        (lambda: neighbor_product(Z, EDGES, size=(3, 2)), ValueError, r"contains 2.*\[0, 1\]"),
        (lambda: neighbor_product(Z, EDGES, size=(4, 3)), ValueError, "z has 3 rows.* 4 sources"),
        (lambda: neighbor_product(Z, EDGES, size=(3, -1)), ValueError, r"size must be .*\(3, -1\)"),
        (lambda: neighbor_product(Z.int(), EDGES), TypeError, "z must be float32.*got torch.int32"),
        (lambda: neighbor_product(Z[0], EDGES), TypeError, r"z must be a dense tensor of two.*\[2\]"),
        (lambda: neighbor_product([[1.0]], EDGES), TypeError, "got list"),
        (lambda: neighbor_product(Z, EDGES.float()), TypeError, "edge_index must be an int64.*torch.float32"),
        (lambda: neighbor_product(Z, EDGES.t()[:1]), TypeError, r"\[2, E\], got a tensor \[1, 2\]"),
        (lambda: neighbor_product(Z, [[0], [1]]), TypeError, "graph must be.*got list"),
        (lambda: neighbor_product(Z, EDGES.to("meta")), ValueError, "graph is on meta, but z is on cpu"),
        (lambda: neighbor_product(Z, EDGES, activation="relu"), ValueError, "activation must be None or 'tanh'.*relu"),
        (lambda: neighbor_product(Z, EDGES, edge_addend=torch.ones(2, 3)), ValueError, r"shape \[2, 2\], got \[2, 3\]"),
        (
            lambda: neighbor_product(Z, EDGES, edge_weight=torch.ones(3)),
            ValueError,
            r"shape \[2\] or \[2, 2\], got \[3\]",
        ),
        (lambda: neighbor_product(Z, EDGES, edge_weight=torch.ones(2).int()), TypeError, "tensor of floats"),
        (lambda: neighbor_product(Z, EDGES, size=3), TypeError, "two integers, got 3"),
        (lambda: neighbor_product(Z, EDGES, size=(None, 3)), TypeError, "two integers"),
        (lambda: neighbor_product(Z, EDGES, size=(3, 3.0)), TypeError, "two integers"),
        (lambda: neighbor_product(Z, EDGES, edge_weight=torch.tensor([2.0, torch.nan])), ValueError, r"2.0.*\[0, 1\]"),
        (lambda: neighbor_product(Z, EDGES, edge_weight=torch.tensor([0.5, 1.5])), ValueError, r"1.5.*\[0, 1\]"),
        (lambda: neighbor_product(Z, EDGES, edge_weight=torch.tensor([-0.5, 1.0])), ValueError, r"-0.5.*\[0, 1\]"),
        (lambda: neighbor_product(Z, EDGES, z_dst=Z, edge_weight=torch.tensor([0.5, 2.0])), ValueError, r"2.0.*"),
        (lambda: exclusive_product(Z, EDGES, edge_weight=torch.tensor([-0.5, 1.0])), ValueError, r"-0.5.*\[0, 1\]"),
        (lambda: segment_product(Z), ValueError, "either index or ptr"),
        (lambda: segment_product(Z, EDGES[0], EDGES[0]), ValueError, "not both"),
        (lambda: segment_product(Z, torch.tensor([0, 1])), ValueError, "2 entries.* 3 rows"),
        (lambda: segment_product(Z, torch.tensor([0, 1, 5]), dim_size=3), ValueError, r"contains 5.*\[0, 2\]"),
        (lambda: segment_product(Z, torch.tensor([0, 1, -2])), ValueError, "contains -2"),
        (lambda: segment_product(Z, torch.tensor([0.0, 1.0, 2.0])), TypeError, "index must be a one-dim.*float32"),
        (lambda: segment_product(Z, ptr=torch.tensor([0, 2])), ValueError, "from 0 to the number of entries, 3"),
        (lambda: segment_product(Z, ptr=torch.tensor([0, 4, 3])), ValueError, "ptr must not decrease"),
        (lambda: segment_product(Z, ptr=torch.tensor([1, 3])), ValueError, "runs from 1 to 3"),
        (lambda: segment_product(Z, ptr=torch.tensor([0, 3]), dim_size=5), ValueError, "dim_size is 5.* 1 groups"),
        (lambda: segment_product(Z, ptr=torch.tensor([], dtype=torch.int64)), ValueError, "ptr is empty"),
        (lambda: segment_product(torch.tensor(1.0), torch.tensor([0])), TypeError, "at least one dimension"),
    ],
)
def test_wrong_input(call, error, words):
    with pytest.raises(error, match=words):
        call()


def csr(ptr, col, values):
    parts = (torch.tensor(part) for part in (ptr, col, values))
    return torch.sparse_csr_tensor(*parts, (3, 3), check_invariants=False)


@pytest.mark.parametrize(
    ("graph", "error", "words"),
    [
        (csr([0, 1, 2, 2], [0, 9], [1.0, 1.0]), ValueError, "sources.* contains 9"),
        (csr([0, 5, 2, 2], [0, 1], [1.0, 1.0]), ValueError, "must not decrease"),
        (csr([0, 1, 2, 2], [0, 1], [1.0, 0.5]), ValueError, "values other than 1.*edge_weight"),
        (csr([0, 1, 2, 2], [0, 1], [1.0, 1.0]).to_sparse_coo(), TypeError, "sparse_coo.*to_sparse_csr"),
        (
            EdgeIndex(torch.tensor([[0, 1, 0], [2, 0, 1]]), sort_order="col", sparse_size=(3, 3)),
            ValueError,
            "not sorted, but its sort_order is 'col'",
        ),
        (EdgeIndex(EDGES, sparse_size=(4, 4)), ValueError, "z has 3 rows.* 4 sources"),
        (EdgeIndex(EDGES, sparse_size=(3, 4)), ValueError, "size has 3 destinations.* 4"),
    ],
)
def test_broken_graphs(graph, error, words):
    with pytest.raises(error, match=words):
        neighbor_product(Z, graph, size=(3, 3) if "size has" in words else None)


def test_the_choice_of_a_backend_ends_with_its_block():
    with pytest.raises(ValueError, match="no backend 'cuda'; choose one of 'cpp'"), use_backend("cuda"):
        pass
    with use_backend("reference"):
        with pytest.raises(ValueError, match="contains 7"), use_backend("torch"):
            neighbor_product(Z, torch.tensor([[7], [0]]))
        neighbor_product(Z, EDGES)
    neighbor_product(Z, EDGES)


def test_edge_terms_of_another_precision():
    """Under autocast z is bfloat16 and what belongs to edges is not."""
    weight = torch.tensor([0.5, 0.25], requires_grad=True)
    out = neighbor_product(Z.bfloat16() * 3, EDGES, edge_weight=weight, edge_addend=torch.zeros(2, 2))
    assert out[:, 0].tolist() == [1.0, 2.0, 1.5]
    out.sum().backward()
    assert weight.grad.dtype == torch.float32
