"""Oracles: the equations of the paper, computed node by node in float64, to test layers against."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch_geometric.utils import add_self_loops

from tgnn.nn import CPAggregation, TGNNConv
from tgnn.nn.mixing import NodeMix, ScalarMix, ScaledBatchNorm

Layer = TypeVar("Layer", bound=torch.nn.Module)


def cp_oracle(layer: CPAggregation, rows: Tensor) -> Tensor:
    """Compute Definition 1 for one set of vectors ``[k, F]``; returns ``[d]`` in float64.

    Example:
        >>> layer = CPAggregation(2, 3, rank=4)
        >>> cp_oracle(layer, torch.ones(5, 2)).shape
        torch.Size([3])
    """
    layer = _in_float64(layer)
    factors = [_activate(layer, _linear_factor(layer, x.double())) for x in rows]
    if layer.scaled:
        factors = [1 + (f - 1) / math.sqrt(len(rows)) for f in factors]
    return _update(layer, _product(factors, layer.rank))


def _in_float64(layer: Layer) -> Layer:
    """Return a copy of a layer in float64, in evaluation mode and without gradients."""
    return copy.deepcopy(layer).double().eval().requires_grad_(False)


def _apply(act: Callable[[Tensor], Tensor] | None, x: Tensor) -> Tensor:
    return x if act is None else act(x)


def _linear_factor(layer: CPAggregation, x: Tensor) -> Tensor:
    return layer.W.t() @ torch.cat([x, x.new_ones(1)])


def _activate(layer: CPAggregation, z: Tensor) -> Tensor:
    z = _apply(layer.factor_act, z)
    return z if layer.scale is None or layer.shift is None else layer.scale * z + layer.shift


def _product(factors: Sequence[Tensor], rank: int) -> Tensor:
    one = torch.ones(rank, dtype=torch.float64)  # the product over an empty set
    return torch.stack([one, *factors]).prod(0)


def _update(layer: CPAggregation, product: Tensor) -> Tensor:
    product = torch.tanh(product) if layer.fuses_tanh else _apply(layer.act, product)
    return _apply(layer.act_out, layer.M @ product)


def tgnn_conv_oracle(
    conv: TGNNConv,
    x: Tensor,
    edge_index: Tensor,
    edge_weight: Tensor | None = None,
    edge_attr: Tensor | None = None,
) -> Tensor:
    """Compute Eq. (5) with all options of :class:`~tgnn.TGNNConv`, node by node; returns ``[N, d]`` in float64.

    Branches with a batch normalization (``high_scale``) are normalized by its running statistics, as in evaluation.

    Example:
        >>> conv = TGNNConv(2, 3, rank=4)
        >>> tgnn_conv_oracle(conv, torch.ones(2, 2), torch.tensor([[0], [1]])).shape
        torch.Size([2, 3])
    """
    conv = _in_float64(conv)
    x = (x.to_dense() if x.layout != torch.strided else x).detach().double()
    num_nodes = x.size(0)
    edges = [(int(u), int(v)) for u, v in edge_index.t()]
    weights = [1.0] * len(edges) if edge_weight is None else [float(w) for w in edge_weight]
    attrs = None if edge_attr is None else [*edge_attr.detach().double()]
    if conv.uses_self_loops:
        filled = None
        if edge_attr is not None and conv.fill_value is not None:
            filled = add_self_loops(edge_index, edge_attr.detach().double(), conv.fill_value, num_nodes)[1][
                len(edges) :
            ]
        for v in range(num_nodes):
            if (v, v) not in edges:
                edges.append((v, v))
                weights.append(1.0)
                if attrs is not None:
                    attrs.append(torch.zeros_like(attrs[0]) if filled is None else filled[v])
    into: list[list[int]] = [[e for e, (_, v) in enumerate(edges) if v == node] for node in range(num_nodes)]
    degree = [sum(weights[e] for e in into[v]) for v in range(num_nodes)]

    def gcn(e: int) -> float:
        u, v = edges[e]
        return weights[e] / math.sqrt(degree[u] * degree[v]) if degree[u] * degree[v] > 0 else 0.0

    def high(v: int) -> Tensor:
        assert conv.cp is not None
        factors = []
        for e in into[v]:
            z = _linear_factor(conv.cp, x[edges[e][0]])
            if attrs is not None and conv.lin_edge is not None:
                z = z + attrs[e] @ conv.lin_edge.weight
            if conv.lin_dst is not None:
                z = z + x[v] @ conv.lin_dst.weight
            if conv.factors == "bounded":
                z = 1 + conv.bound * torch.tanh(z)
            z = _activate(conv.cp, z)
            w = torch.tensor(min(1.0, gcn(e)) if conv.factors == "weighted" else weights[e], dtype=torch.float64)
            has_features = e < edge_index.size(1) or conv.fill_value is not None
            if attrs is not None and conv.lin_gate is not None and has_features:
                assert conv.lin_gate.bias is not None
                w = w * torch.sigmoid(attrs[e] @ conv.lin_gate.weight + conv.lin_gate.bias)
            factors.append(w * z + (1 - w))
        product = _product(factors, conv.rank)
        if conv.factors == "tempered":
            product = product.sign() * product.abs() ** (1 / math.sqrt(max(degree[v], 1)))
        if conv.factors == "bounded":  # positive
            product = product ** (max(degree[v], 1) ** -conv.degree_exponent)
        return _normalize(conv.norm_high, _update(conv.cp, product))

    def gate(e: int) -> Tensor:
        assert conv.gate is not None
        u, v = edges[e]
        assert conv.gate.lin_dst.bias is not None
        state = x[v] @ conv.gate.lin_dst.weight + conv.gate.lin_dst.bias
        state = state + x[u] @ conv.gate.lin_src.weight
        if attrs is not None and conv.gate.lin_edge is not None:
            state = state + attrs[e] @ conv.gate.lin_edge.weight
        return torch.sigmoid(state)

    def low(v: int) -> Tensor:
        assert conv.lin_low is not None
        total = torch.zeros(conv.out_channels, dtype=torch.float64)
        gates = torch.full_like(total, 1e-6)
        for e in into[v]:
            u = edges[e][0]
            message = x[u] @ conv.lin_low.weight
            if conv.low_order == "gcn":
                message = message / math.sqrt(degree[u]) if degree[u] > 0 else message * 0
            if attrs is not None and conv.lin_edge_low is not None:
                message = message + attrs[e] @ conv.lin_edge_low.weight
            if conv.gate is not None:
                gates = gates + weights[e] * gate(e)
                message = gate(e) * message
            total = total + weights[e] * message
        if conv.low_order == "gated_mean":
            total = total / gates
        if conv.low_order == "mean":
            total = total / degree[v] if degree[v] > 0 else total * 0
        if conv.low_order == "gcn":
            total = total / math.sqrt(degree[v]) if degree[v] > 0 else total * 0
        return _apply(conv.act_low, total)

    def root(v: int) -> Tensor:
        zero = torch.zeros(conv.out_channels, dtype=torch.float64)
        return zero if conv.lin_root is None else x[v] @ conv.lin_root.weight

    rows = []
    for v in range(num_nodes):
        linear = None if conv.low_order is None else low(v)
        if conv.norm_low is not None:
            linear = _normalize(conv.norm_low, root(v) if linear is None else linear + root(v))
        if conv.cp is None:
            assert linear is not None
            row = linear
        else:
            row = high(v) if linear is None else _mix(conv, high(v), linear)
        rows.append(row if conv.norm_low is not None else row + root(v))
    return torch.stack(rows) if rows else torch.zeros(0, conv.out_channels, dtype=torch.float64)


def _normalize(norm: ScaledBatchNorm | None, x: Tensor) -> Tensor:
    return x if norm is None else norm.module(x.unsqueeze(0)).squeeze(0)


def _mix(conv: TGNNConv, high: Tensor, low: Tensor) -> Tensor:
    if isinstance(conv.mix, ScalarMix):
        a = float(conv.mix.a_high)
    elif isinstance(conv.mix, NodeMix):
        a = float(torch.sigmoid(high @ conv.mix.high - low @ conv.mix.low))
    else:
        return high + low
    return a * high + (1 - a) * low


def assert_matches_oracle(layer: CPAggregation | TGNNConv, *inputs: Any, tolerance: float = 1e-5) -> None:
    """Assert that the output of a layer equals the equation of the paper.

    Args:
        layer: ``CPAggregation`` (inputs ``x, index``) or ``TGNNConv`` (``x, edge_index, edge_weight, edge_attr``).
        *inputs: Inputs of the layer.
        tolerance: Relative and absolute tolerance.

    Example:
        >>> assert_matches_oracle(CPAggregation(2, rank=3), torch.randn(4, 2), torch.tensor([0, 0, 2, 2]))
    """
    out = layer(*inputs).detach().double()
    if isinstance(layer, CPAggregation):
        x, index = inputs
        groups = [cp_oracle(layer, x.detach()[index == group]) for group in range(out.size(0))]
        expected = torch.stack(groups) if groups else out
    else:
        expected = tgnn_conv_oracle(layer, *inputs)
    torch.testing.assert_close(out, expected, rtol=tolerance, atol=tolerance)
