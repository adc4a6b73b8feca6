"""Linear map and dropout for dense and sparse features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.parameter import Parameter, UninitializedParameter
from torch_geometric.nn.inits import glorot

from tgnn.nn.checks import check_features, check_size
from tgnn.ops import sparse_matmul


class FeatureLinear(torch.nn.Module):
    r"""Compute :math:`x W + b` for dense or sparse ``x``.

    ``W`` is stored as ``[in_channels, out_channels]``, so a sparse row of ``x`` selects and adds rows of ``W``.

    Args:
        in_channels: Number of input features. ``-1`` infers it from the first input.
        out_channels: Number of output features.
        bias: Whether to learn a bias :math:`b`.
        initialize: Function that initializes ``W`` in place, by default Glorot.
        initial_bias: Initial value of the bias.
        input_name: Name of the input in error messages.

    Shapes:
        - **input:** ``[*, in_channels]``, or sparse CSR or COO ``[N, in_channels]``
        - **output:** ``[*, out_channels]``

    Example:
        >>> FeatureLinear(3, 2)(torch.eye(3).to_sparse_csr()).shape
        torch.Size([3, 2])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        bias: bool = False,
        initialize: Callable[[Tensor], object] = glorot,
        initial_bias: float = 0.0,
        input_name: str = "x",
    ) -> None:
        super().__init__()
        check_size("in_channels", in_channels, lazy=True)
        self.input_name = input_name
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.initialize = initialize
        self.initial_bias = initial_bias
        self.weight: Parameter | UninitializedParameter = (
            UninitializedParameter() if in_channels < 0 else Parameter(torch.empty(in_channels, out_channels))
        )
        self.bias = Parameter(torch.empty(out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if not isinstance(self.weight, UninitializedParameter):
            self.initialize(self.weight)
        if self.bias is not None:
            torch.nn.init.constant_(self.bias, self.initial_bias)

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(self.weight, UninitializedParameter):
            self._materialize(x.size(-1))
        check_features(self.input_name, x, self.in_channels, self.weight)
        if x.layout == torch.strided:
            return F.linear(x, self.weight.t(), self.bias)
        out = sparse_matmul(to_csr(x), self.weight)
        return out if self.bias is None else out.add_(self.bias)

    def _materialize(self, in_channels: int) -> None:
        assert isinstance(self.weight, UninitializedParameter)
        self.in_channels = in_channels
        self.weight.materialize((in_channels, self.out_channels))
        self.initialize(self.weight)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        if isinstance(self.weight, UninitializedParameter):
            raise ValueError("The layer has in_channels=-1 and no parameters yet; run it once before saving it.")
        super()._save_to_state_dict(destination, prefix, keep_vars)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        if isinstance(self.weight, UninitializedParameter) and f"{prefix}weight" in state_dict:
            self._materialize(state_dict[f"{prefix}weight"].size(0))
        super()._load_from_state_dict(state_dict, prefix, *args)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, bias={self.bias is not None})"


class FeatureDropout(torch.nn.Dropout):
    """Dropout for dense and sparse features. In a sparse matrix it drops stored entries.

    Example:
        >>> FeatureDropout(0.5)(torch.eye(3).to_sparse_csr()).layout
        torch.sparse_csr
    """

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        if x.layout == torch.strided:
            return _dropout(x, self.p)
        csr = to_csr(x)
        kept = _dropout(csr.values(), self.p)
        return torch.sparse_csr_tensor(csr.crow_indices(), csr.col_indices(), kept, csr.shape, check_invariants=False)


def _dropout(x: Tensor, p: float) -> Tensor:
    if x.device.type != "cpu" or p == 1:
        return F.dropout(x, p)
    # On the CPU, torch draws uniform numbers four times as fast as Bernoulli numbers.
    kept = torch.rand(x.shape, device=x.device) >= p
    return x * kept.to(x.dtype).mul_(1 / (1 - p))


def to_csr(x: Tensor) -> Tensor:
    if x.layout not in (torch.sparse_csr, torch.sparse_coo):
        raise TypeError(f"x must be dense, sparse CSR or sparse COO, got {x.layout}; convert it with .to_sparse_csr().")
    return x if x.layout == torch.sparse_csr else x.to_sparse_csr()
