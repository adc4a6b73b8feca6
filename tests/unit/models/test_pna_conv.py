"""NodewisePNAConv equals PyG's PNAConv."""

from __future__ import annotations

import pytest
import torch
from torch_geometric import EdgeIndex
from torch_geometric.explain.algorithm.utils import set_masks
from torch_geometric.nn import PNAConv

from tgnn.models.pna import AGGREGATORS, SCALERS, NodewisePNAConv

DEGREES = torch.tensor([3, 10, 20, 5])


def layers(**kwargs):
    """Both layers with the same weights in double precision; messages have ties and are never 0.

    A maximum of 0 would share its gradient with the initial value of ``scatter_reduce``.
    """
    theirs = PNAConv(12, 8, list(AGGREGATORS), list(SCALERS), DEGREES, **kwargs).double()
    for parameter in theirs.parameters():
        parameter.data = torch.round(8 * parameter.data) / 8
    for tower in theirs.pre_nns:
        tower[0].bias.data += 1 / 128
    ours = NodewisePNAConv(12, 8, DEGREES, **kwargs).double()
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def graph(equal_rows=False):
    """Duplicate, unsorted edges and isolated nodes."""
    edges = torch.randint(0, 15, (2, 40))
    x = torch.randint(-4, 5, (20, 12)).double()
    return x[torch.zeros(20, dtype=torch.long)] if equal_rows else x, torch.cat([edges, edges[:, :6]], dim=1)


def output_and_gradients(layer, x, edges, edge_attr=None):
    """Output and gradients of the input and of the weights."""
    x = x.clone().requires_grad_()
    out = layer(x, edges, edge_attr)
    (out * torch.randn(out.shape, generator=torch.Generator().manual_seed(1), dtype=out.dtype)).sum().backward()
    return [out.detach(), x.grad, *(parameter.grad for parameter in layer.parameters())]


@pytest.mark.parametrize(
    "kwargs", [{}, {"towers": 4}, {"towers": 4, "divide_input": True}, {"pre_layers": 2, "post_layers": 2}], ids=str
)
@pytest.mark.parametrize("equal_rows", [False, True])
@pytest.mark.parametrize("edge_dim", [None, 3])
def test_equals_pyg(kwargs, equal_rows, edge_dim):
    torch.manual_seed(0)
    theirs, ours = layers(edge_dim=edge_dim, **kwargs)
    x, edges = graph(equal_rows)
    edge_attr = None if edge_dim is None else torch.randint(-1, 2, (edges.size(1), edge_dim)).double()
    for a, b in zip(
        output_and_gradients(theirs, x, edges, edge_attr), output_and_gradients(ours, x, edges, edge_attr), strict=True
    ):
        torch.testing.assert_close(b, a, rtol=1e-9, atol=1e-9)


def test_no_edges_and_no_nodes():
    theirs, ours = layers()
    x, none = torch.randn(3, 12, dtype=torch.double), torch.zeros(2, 0, dtype=torch.long)
    for a, b in zip(output_and_gradients(theirs, x, none), output_and_gradients(ours, x, none), strict=True):
        torch.testing.assert_close(b, a)
    assert ours(x[:0], none).shape == (0, 8)


def test_an_explainer_sees_messages():
    """An explainer multiplies each message by a mask."""
    theirs, ours = layers()
    x, edges = graph()
    mask = torch.randn(edges.size(1), dtype=x.dtype)
    for layer in (theirs, ours):
        set_masks(layer, mask, edges)
    torch.testing.assert_close(ours(x, edges), theirs(x, edges))


def test_missing_edge_features():
    _, ours = layers(edge_dim=3)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        ours(*graph())


def test_second_derivatives():
    _, ours = layers()
    edges = torch.tensor([[0, 1, 2, 2], [1, 0, 1, 0]])
    x = torch.randn(3, 12, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: ours(x, edges), x, atol=1e-4)


def test_a_hub_in_half_precision():
    """Sums are accumulated in float32."""
    torch.manual_seed(0)
    theirs, ours = layers()
    x, edges = torch.randn(3001, 12), torch.stack([torch.arange(1, 3001), torch.zeros(3000, dtype=torch.long)])
    wanted = theirs.float()(x, edges)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = ours.float()(x, edges)
    torch.testing.assert_close(found.float(), wanted, rtol=0.02, atol=0.05)


def test_edge_index_that_knows_its_order():
    theirs, ours = layers()
    x, edges = graph()
    torch.testing.assert_close(ours(x, EdgeIndex(edges, sparse_size=(20, 20))), theirs(x, edges))
