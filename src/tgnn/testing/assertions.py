"""Assertions that every permutation-invariant aggregation must pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def assert_permutation_invariant(
    aggregate: Callable[..., Tensor], x: Tensor, index: Tensor, *, trials: int = 5, tolerance: float = 1e-5
) -> None:
    """Assert that ``aggregate(x, index)`` does not depend on the order of the rows.

    Args:
        aggregate: Aggregation, called as ``aggregate(x, index, dim_size=...)``.
        x: Rows to aggregate, ``[E, F]``.
        index: Group of each row, ``[E]``.
        trials: Number of random permutations.
        tolerance: Relative and absolute tolerance.

    Example:
        >>> from tgnn import CPAggregation
        >>> x, index = torch.randn(6, 4), torch.tensor([0, 1, 0, 2, 2, 2])
        >>> assert_permutation_invariant(CPAggregation(4, rank=3), x, index)
    """
    groups = int(index.max()) + 1 if index.numel() else 0
    expected = aggregate(x, index, dim_size=groups)
    for _ in range(trials):
        order = torch.randperm(index.numel())
        out = aggregate(x[order], index[order], dim_size=groups)
        torch.testing.assert_close(
            out,
            expected,
            rtol=tolerance,
            atol=tolerance,
            msg=lambda m: f"The output depends on the order of the rows: {m}",
        )


def assert_permutation_equivariant(
    layer: Callable[..., Tensor], x: Tensor, edge_index: Tensor, *, trials: int = 5, tolerance: float = 1e-5
) -> None:
    """Assert that a permutation of the nodes and edges only permutes the rows of ``layer(x, edge_index)``.

    Args:
        layer: Layer or model for node tasks.
        x: Node features, ``[N, F]``.
        edge_index: Edges, ``[2, E]``.
        trials: Number of random permutations.
        tolerance: Relative and absolute tolerance.

    Example:
        >>> from tgnn import TGNNConv
        >>> assert_permutation_equivariant(TGNNConv(4, 2, 3), torch.randn(3, 4), torch.tensor([[0, 1], [1, 2]]))
    """
    expected = layer(x, edge_index)
    for _ in range(trials):
        perm = torch.randperm(x.size(0))  # node i becomes node perm[i]
        permuted = torch.empty_like(x)
        permuted[perm] = x
        edges = perm[edge_index][:, torch.randperm(edge_index.size(1))]
        torch.testing.assert_close(
            layer(permuted, edges)[perm],
            expected,
            rtol=tolerance,
            atol=tolerance,
            msg=lambda m: f"The output depends on the order of the nodes: {m}",
        )


def assert_gradients(function: Callable[..., Tensor], *inputs: Any, second: bool = False) -> None:
    """Assert that the gradients of ``function(*inputs)`` equal finite differences.

    All floating point inputs, and the parameters if ``function`` is a module, must be float64.

    Args:
        function: Function or module.
        *inputs: Arguments of the function.
        second: Whether to check second derivatives, too.

    Example:
        >>> from tgnn import CPAggregation
        >>> x, index = torch.randn(3, 2, dtype=torch.float64), torch.tensor([0, 0, 1])
        >>> assert_gradients(CPAggregation(2, rank=2).double(), x, index)
    """
    parameters = list(function.parameters()) if isinstance(function, torch.nn.Module) else []
    if any(isinstance(t, (tuple, list, dict)) for t in inputs):
        raise TypeError("Pass tensors, not collections of tensors, whose gradients would not be checked.")
    leaves = [t for t in inputs if isinstance(t, Tensor) and t.is_floating_point()]
    if any(t.dtype != torch.float64 for t in [*leaves, *parameters]):
        raise TypeError("Finite differences need float64; call .double() on the inputs and on the module.")
    inputs = tuple(t.detach().clone().requires_grad_() if any(t is leaf for leaf in leaves) else t for t in inputs)
    tracked = [t for t in inputs if isinstance(t, Tensor) and t.requires_grad] + parameters

    def run(*_: Tensor) -> Tensor:
        return function(*inputs)

    torch.autograd.gradcheck(run, tracked, fast_mode=True)
    if second:
        torch.autograd.gradgradcheck(run, tracked, fast_mode=True)
