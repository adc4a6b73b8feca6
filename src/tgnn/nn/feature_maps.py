"""Maps of node and edge features: linear maps, embeddings of categories, and dropout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.parameter import Parameter, UninitializedParameter
from torch_geometric.nn.inits import glorot

from tgnn.ops import sparse_matmul

_NUM_VALUES = 2**16
"""Number of values of the random numbers for dropout on the CPU."""


def check_size(name: str, value: Any, minimum: int = 1, lazy: bool = False) -> None:
    """Check that a size is an integer of at least ``minimum``, or -1 (inferred from the input) if ``lazy``."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is {value!r}, but must be an integer.")
    if value < minimum and not (lazy and value == -1):
        raise ValueError(f"{name} is {value}, but must be at least {minimum}{' (or -1)' if lazy else ''}.")


def check_choice(name: str, value: Any, choices: Sequence[Any]) -> None:
    """Check that the value of an argument is one of its choices."""
    if value not in choices:
        raise ValueError(f"{name} is {value!r}, but must be one of {', '.join(map(repr, choices))}.")


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
        self._check(x)
        if x.layout == torch.strided:
            return F.linear(x, self.weight.t(), self.bias)
        out = sparse_matmul(_to_csr(x), self.weight)
        return out if self.bias is None else out.add_(self.bias)

    def _check(self, x: Any) -> None:
        name, dtype = self.input_name, self.weight.dtype
        if not isinstance(x, Tensor):
            raise TypeError(f"{name} must be a tensor, got {type(x).__name__}.")
        if x.dim() == 0 or x.size(-1) != self.in_channels:
            found = x.size(-1) if x.dim() else 0
            raise ValueError(f"{name} has {found} features, but the layer expects {self.in_channels}.")
        if not x.is_floating_point():
            raise TypeError(
                f"{name} is {x.dtype}, but the weights are {dtype}; convert it with .float(), or pass the number of "
                "categories of each column as a list to GraphTGNN."
            )
        if x.dtype != dtype and not torch.is_autocast_enabled(x.device.type):
            raise TypeError(f"{name} is {x.dtype}, but the weights are {dtype}; convert it with .to({dtype}).")

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


class CategoryEncoder(torch.nn.Module):
    """Sum of one embedding per categorical column, for example for the atoms and bonds of OGB.

    Args:
        sizes: Number of categories of each column.
        out_channels: Size of the embeddings.
        input_name: Name of the input in error messages.

    Shapes:
        - **input:** integers ``[N, len(sizes)]``, or ``[N]`` for one column
        - **output:** ``[N, out_channels]``

    Example:
        >>> CategoryEncoder([28], 16)(torch.tensor([0, 5, 27])).shape
        torch.Size([3, 16])
    """

    def __init__(self, sizes: Sequence[int], out_channels: int, input_name: str = "x") -> None:
        super().__init__()
        if not sizes or min(sizes) < 1:
            raise ValueError(
                f"The numbers of categories of {input_name} are {list(sizes)}, but must be a list of positive numbers."
            )
        self.input_name = input_name
        self.sizes = list(sizes)
        self.offset: Tensor
        self.register_buffer("offset", torch.tensor([0, *self.sizes[:-1]]).cumsum(0), persistent=False)
        self.weight = Parameter(torch.empty(sum(self.sizes), out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        torch.nn.init.normal_(self.weight, std=len(self.sizes) ** -0.5)

    def forward(self, x: Tensor) -> Tensor:
        x = x.view(-1, 1) if x.dim() == 1 else x
        if x.is_floating_point() or x.size(1) != len(self.sizes):
            raise ValueError(
                f"{self.input_name} must be categories, integers in {len(self.sizes)} columns, "
                f"got {list(x.shape)} of {x.dtype}."
            )
        if not torch.compiler.is_compiling():
            self._check(x)
        if len(self.sizes) == 1:
            return F.embedding(x.squeeze(1), self.weight)
        return F.embedding_bag(x + self.offset, self.weight, mode="sum")

    def _check(self, x: Tensor) -> None:
        for column, size in enumerate(self.sizes if x.numel() else []):
            low, high = (int(value) for value in torch.aminmax(x[:, column]))
            if low < 0 or high >= size:
                wrong = low if low < 0 else high
                raise ValueError(
                    f"{self.input_name}[:, {column}] contains category {wrong}, but has {size}: 0 to {size - 1}."
                )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.sizes}, {self.weight.size(1)})"


class MixedEncoder(torch.nn.Module):
    """Sum of the embeddings of categorical columns and a linear map of the numeric columns that follow them.

    Args:
        sizes: Number of categories of each categorical column, then a 0 for each numeric column.
        out_channels: Size of the embeddings.
        input_name: Name of the input in error messages.

    Shapes:
        - **input:** floats ``[N, len(sizes)]``. Categories are integers that are stored as floats.
        - **output:** ``[N, out_channels]``

    Example:
        >>> MixedEncoder([28, 0, 0], 16)(torch.tensor([[27.0, 0.5, -1.0]])).shape
        torch.Size([1, 16])
    """

    def __init__(self, sizes: Sequence[int], out_channels: int, input_name: str = "x") -> None:
        super().__init__()
        self.num_categorical = list(sizes).index(0)
        self.categories = CategoryEncoder(sizes[: self.num_categorical], out_channels, input_name)
        self.numbers = FeatureLinear(len(sizes) - self.num_categorical, out_channels, input_name=input_name)

    def reset_parameters(self) -> None:
        self.categories.reset_parameters()
        self.numbers.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        categories, numbers = x[:, : self.num_categorical], x[:, self.num_categorical :]
        out: Tensor = self.categories(categories.long()) + self.numbers(numbers)
        return out


def make_encoder(
    channels: int | Sequence[int], out_channels: int, input_name: str
) -> FeatureLinear | CategoryEncoder | MixedEncoder:
    """Create an encoder: a linear map for a number of features, embeddings for a list of numbers of categories.

    In the list, numeric columns that follow the categorical ones have 0 categories.
    """
    if isinstance(channels, (list, tuple)):
        encoder = MixedEncoder if 0 in channels else CategoryEncoder
        return encoder(channels, out_channels, input_name)
    check_size("in_channels" if input_name == "x" else "edge_dim", channels, lazy=True)
    assert isinstance(channels, int)
    return FeatureLinear(channels, out_channels, bias=True, input_name=input_name)


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
        csr = _to_csr(x)
        kept = _dropout(csr.values(), self.p)
        return torch.sparse_csr_tensor(csr.crow_indices(), csr.col_indices(), kept, csr.shape, check_invariants=False)


def _dropout(x: Tensor, p: float) -> Tensor:
    num_dropped = round(p * _NUM_VALUES)
    if x.device.type != "cpu" or _is_traced() or num_dropped in (0, _NUM_VALUES):
        return F.dropout(x, p)
    # On the CPU, torch draws Bernoulli numbers one by one. Four 16-bit numbers of a 64-bit number take an eighth of the
    # time. p is rounded to a multiple of 2 ** -16.
    words = torch.empty(-(-x.numel() // 4), dtype=torch.int64, device="cpu").random_(torch.iinfo(torch.int64).min, None)
    values = words.view(torch.int16)[: x.numel()].view(x.shape)
    kept = values >= num_dropped - _NUM_VALUES // 2
    return x * kept.to(x.dtype).mul_(_NUM_VALUES / (_NUM_VALUES - num_dropped))


def _is_traced() -> bool:
    """Whether torch.compile, torch.export, torch.jit.trace or a transform of torch.func records the operations."""
    return bool(
        torch.compiler.is_compiling()
        or torch._C._get_tracing_state() is not None
        or torch._C._functorch.peek_interpreter_stack() is not None
    )


def _to_csr(x: Tensor) -> Tensor:
    if x.layout not in (torch.sparse_csr, torch.sparse_coo):
        raise TypeError(f"x must be dense, sparse CSR or sparse COO, got {x.layout}; convert it with .to_sparse_csr().")
    return x if x.layout == torch.sparse_csr else x.to_sparse_csr()
