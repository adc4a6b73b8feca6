"""Belief propagation for binary codes, a decoder without learned weights."""

from __future__ import annotations

import torch
from torch import Tensor

from tgnn.nn.feature_maps import check_choice
from tgnn.ops import exclusive_product

_LARGEST_LLR = 30.0
"""Messages are clamped to this absolute value, where the probability of an error is 1e-13."""


class BeliefPropagation(torch.nn.Module):
    r"""Decode binary linear codes by belief propagation with the flooding schedule.

    .. math::
        q_{c \to v} = 2 \operatorname{artanh} \prod_{v' \in c \setminus v} \tanh \frac{m_{v' \to c}}{2}, \qquad
        m_{v \to c} = x_v + \sum_{c' \ni v, \, c' \neq c} q_{c' \to v}, \qquad
        y_v = x_v + \sum_{c \ni v} q_{c \to v}

    Args:
        num_rounds: Number of iterations.
        rule: ``"sum-product"`` is the rule above. ``"min-sum"`` replaces the first equation by
            :math:`\alpha \prod \operatorname{sign}(m) \min |m|`, with the product and the minimum over the other
            variables.
        scale: :math:`\alpha` of ``"min-sum"``. 0.75 is a common choice.

    Shapes:
        - **input:** ``x`` ``[N, *]``, the log-likelihood ratios ``log(p(0) / p(1))``; ``edge_index`` ``[2, E]`` from
          variables to checks
        - **output:** ``[num_rounds, N, *]``, log-likelihood ratios after each round

    Example:
        >>> edge_index = torch.tensor([[0, 1, 1, 2], [0, 0, 1, 1]])  # three equal bits
        >>> BeliefPropagation(2)(torch.tensor([3.0, -1.0, 3.0]), edge_index)[-1].tolist()  # x_0 + x_1 + x_2
        [5.0..., 5.0..., 5.0...]
    """

    def __init__(self, num_rounds: int, rule: str = "sum-product", scale: float = 0.75) -> None:
        super().__init__()
        check_choice("rule", rule, ("sum-product", "min-sum"))
        self.num_rounds, self.rule, self.scale = num_rounds, rule, scale

    def forward(
        self, x: Tensor, edge_index: Tensor, num_factors: int | None = None, num_rounds: int | None = None
    ) -> Tensor:
        """Compute the log-likelihood ratios of every variable after every round.

        Args:
            x: Log-likelihood ratios of the received values.
            edge_index: Edges from variables (row 0) to checks (row 1).
            num_factors: Number of checks. Default: the largest index plus 1.
            num_rounds: Number of rounds. Default: that of the constructor.
        """
        if num_factors is None:
            num_factors = int(edge_index[1].max()) + 1 if edge_index.numel() else 0
        variable, rows = edge_index[0], x.flatten(1) if x.dim() > 1 else x.unsqueeze(1)
        size = rows.size(0), num_factors
        message = rows[variable]
        outputs = []
        for _ in range(self.num_rounds if num_rounds is None else num_rounds):
            check = self._check_rule(message.clamp(-_LARGEST_LLR, _LARGEST_LLR), edge_index, size)
            total = rows.index_add(0, variable, check)
            outputs.append(total.view_as(x))
            message = total[variable] - check
        return torch.stack(outputs)

    def _check_rule(self, message: Tensor, edge_index: Tensor, size: tuple[int, int]) -> Tensor:
        """Compute the messages from checks to variables."""
        if self.rule == "sum-product":
            product = exclusive_product(
                None, edge_index, size=size, edge_addend=message.double() / 2, factor_activation="tanh"
            )
            return (2 * product.atanh()).to(message.dtype).clamp(-_LARGEST_LLR, _LARGEST_LLR)
        sign = exclusive_product(None, edge_index, size=size, edge_addend=torch.where(message < 0, -1.0, 1.0))
        return self.scale * sign.to(message.dtype) * _smallest_of_others(message.abs(), edge_index[1], size[1])

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_rounds={self.num_rounds}, rule={self.rule!r})"


def _smallest_of_others(values: Tensor, check: Tensor, num_checks: int) -> Tensor:
    """Return, for each edge and column, the smallest value of the other edges of the same check."""
    index = check.unsqueeze(1).expand_as(values)
    infinite = values.new_full((num_checks, values.size(1)), float("inf"))
    smallest = infinite.scatter_reduce(0, index, values, "amin")[check]
    is_smallest = values == smallest
    count = torch.zeros_like(infinite).scatter_add(0, index, is_smallest.to(values.dtype))[check]
    second = infinite.scatter_reduce(0, index, values.masked_fill(is_smallest, float("inf")), "amin")[check]
    return torch.where(is_smallest & (count == 1), second, smallest).clamp(max=_LARGEST_LLR)
