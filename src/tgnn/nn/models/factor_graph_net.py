"""FactorGraphNet: message passing between the variables and the factors of a factor graph."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn.aggr import Aggregation
from torch_geometric.nn.resolver import aggregation_resolver

from tgnn.nn.feature_maps import check_size
from tgnn.ops import exclusive_product


class FactorGraphNet(torch.nn.Module):
    r"""Message passing on a factor graph, with an edge state, products at factors and sums at variables.

    Every round updates the state :math:`h_e` of each edge :math:`e = (v, c)` between a variable :math:`v` and a factor
    :math:`c`:

    .. math::
        q_e &= \mathrm{MLP}_1 \Big( \prod_{e' \ni c, \, e' \neq e} \tanh(W h_{e'} + b) \Big)
        && \text{factor to variable, over the other edges of the factor} \\
        h_e &\leftarrow h_e + \mathrm{MLP}_2 \Big( \sum_{e' \ni v, \, e' \neq e} q_{e'}, \; h_e, \; x_v \Big)
        && \text{variable to factor, over the other edges of the variable} \\
        y_v &= W_{\text{skip}} x_v + W_{\text{out}} \sum_{e' \ni v} q_{e'} + b_{\text{out}}
        && \text{output after the round}

    The initial state is :math:`h_e = W_{\text{in}} x_v + b_{\text{in}}`. The first line is a leave-one-out product
    (:func:`tgnn.ops.exclusive_product`). With one channel, :math:`W = 1/2`, :math:`b = 0` and
    :math:`2 \operatorname{artanh}` as :math:`\mathrm{MLP}_1`, it is the rule of a check node in belief propagation
    (:class:`~tgnn.nn.BeliefPropagation`).

    Before training, :math:`W_{\text{out}}` and :math:`b_{\text{out}}` are 0, and :math:`W_{\text{skip}}` is the
    identity if ``in_channels`` equals ``out_channels``. So a decoder starts with the received bits.

    Args:
        in_channels: Number of features of a variable. Use 1 for the log-likelihood ratio of a received bit.
        hidden_channels: Size of the edge state.
        num_rounds: Number of rounds. With ``tied=True``, ``forward`` accepts another number.
        out_channels: Number of outputs per variable.
        rank: CP rank of the products. Default: ``hidden_channels``.
        mlp_channels: Hidden channels of both MLPs. Default: twice ``hidden_channels``.
        aggr: Aggregation at the factors. ``"cp"`` is the product above, and ``"sum"`` the sum over the other edges. Any
            aggregation of PyG, by name or as a module, is also accepted. PyG's aggregations include the edge itself, so
            its state is a second input of :math:`\mathrm{MLP}_1`.
        tied: Whether all rounds share their weights.
        aggr_channels: Number of channels that an ``aggr`` module returns. Default: ``rank``.

    Shapes:
        - **input:** ``x`` ``[N, in_channels]``, or ``[N, B, in_channels]`` for B examples on the same graph;
          ``edge_index`` ``[2, E]`` from variables to factors
        - **output:** ``[num_rounds, N, out_channels]`` or ``[num_rounds, N, B, out_channels]``

    Example:
        >>> net = FactorGraphNet(1, 16, num_rounds=5)
        >>> edge_index = torch.tensor([[0, 1, 1, 2], [0, 0, 1, 1]])  # two checks of three bits
        >>> net(torch.randn(3, 10, 1), edge_index).shape
        torch.Size([5, 3, 10, 1])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_rounds: int,
        out_channels: int = 1,
        *,
        rank: int | None = None,
        mlp_channels: int | None = None,
        aggr: str | Aggregation = "cp",
        tied: bool = True,
        aggr_channels: int | None = None,
    ) -> None:
        super().__init__()
        rank = hidden_channels if rank is None else rank
        mlp_channels = 2 * hidden_channels if mlp_channels is None else mlp_channels
        sizes = {"in_channels": in_channels, "hidden_channels": hidden_channels, "num_rounds": num_rounds}
        for name, size in {**sizes, "out_channels": out_channels, "rank": rank, "mlp_channels": mlp_channels}.items():
            check_size(name, size)
        self.in_channels, self.hidden_channels, self.out_channels = in_channels, hidden_channels, out_channels
        self.num_rounds, self.rank, self.tied = num_rounds, rank, tied
        self.lin_in = torch.nn.Linear(in_channels, hidden_channels)
        self.rounds = torch.nn.ModuleList(
            _Round(in_channels, hidden_channels, rank, mlp_channels, aggr, aggr_channels or rank)
            for _ in range(1 if tied else num_rounds)
        )
        self.lin_out = torch.nn.Linear(hidden_channels, out_channels)
        self.lin_skip = torch.nn.Linear(in_channels, out_channels, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for module in (self.lin_in, *self.rounds, self.lin_skip):
            module.reset_parameters()
        torch.nn.init.zeros_(self.lin_out.weight)
        torch.nn.init.zeros_(self.lin_out.bias)
        if self.in_channels == self.out_channels:
            torch.nn.init.eye_(self.lin_skip.weight)  # training starts with the input as the output

    def forward(
        self, x: Tensor, edge_index: Tensor, num_factors: int | None = None, num_rounds: int | None = None
    ) -> Tensor:
        """Compute the outputs of every variable after every round.

        Args:
            x: Features of the variables.
            edge_index: Edges from variables (row 0) to factors (row 1).
            num_factors: Number of factors. Default: the largest index plus 1.
            num_rounds: Number of rounds. Default: that of the constructor. Another number requires ``tied=True``.
        """
        num_rounds = self.num_rounds if num_rounds is None else num_rounds
        if num_rounds != self.num_rounds and not self.tied:
            raise ValueError(f"num_rounds is {num_rounds}, but a network with tied=False has {self.num_rounds}.")
        if num_factors is None:
            num_factors = int(edge_index[1].max()) + 1 if edge_index.numel() else 0
        size = x.size(0), num_factors
        x_of_edge = x[edge_index[0]]
        skip, state = self.lin_skip(x), self.lin_in(x)[edge_index[0]]
        outputs = []
        for index in range(num_rounds):
            round_ = self.rounds[0 if self.tied else index]
            assert isinstance(round_, _Round)
            message = round_.message(state, edge_index, size)
            total = message.new_zeros(x.size(0), *message.shape[1:]).index_add(0, edge_index[0], message)
            outputs.append(skip + self.lin_out(total))
            if index < num_rounds - 1:
                others = total[edge_index[0]] - message
                state = state + round_.update(torch.cat([others, state, x_of_edge], dim=-1))
        return torch.stack(outputs)

    def __repr__(self) -> str:
        sizes = f"{self.in_channels}, {self.hidden_channels}, num_rounds={self.num_rounds}, rank={self.rank}"
        return f"{type(self).__name__}({sizes})"


class _Round(torch.nn.Module):
    """Weights of one round: the messages of the factors and the update of the edge states."""

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        rank: int,
        mlp_channels: int,
        aggr: str | Aggregation,
        aggr_channels: int,
    ) -> None:
        super().__init__()
        self.lin_factor = torch.nn.Linear(hidden_channels, rank)
        self.aggr = None if aggr in ("cp", "sum") else aggregation_resolver(aggr)
        self.is_product = aggr == "cp"
        message_channels = aggr_channels if self.aggr is None else aggr_channels + hidden_channels
        self.message_mlp = _mlp(message_channels, mlp_channels, hidden_channels)
        self.update = _mlp(2 * hidden_channels + in_channels, mlp_channels, hidden_channels)

    def reset_parameters(self) -> None:
        for module in (self.lin_factor, self.aggr, *self.message_mlp, *self.update):
            if hasattr(module, "reset_parameters"):
                module.reset_parameters()
        torch.nn.init.zeros_(self.lin_factor.bias)  # signed factors, as those of belief propagation

    def message(self, state: Tensor, edge_index: Tensor, size: tuple[int, int]) -> Tensor:
        """Compute the messages from factors to variables, one per edge."""
        terms, factor = self.lin_factor(state), edge_index[1]
        if self.is_product:
            columns = terms.flatten(1)  # examples on the same graph are columns of one product
            others = exclusive_product(None, edge_index, size=size, edge_addend=columns, factor_activation="tanh")
            inputs = others.view_as(terms)
        elif self.aggr is None:
            terms = terms.tanh()
            inputs = terms.new_zeros(size[1], *terms.shape[1:]).index_add(0, factor, terms)[factor] - terms
        else:
            aggregated = self.aggr(terms.tanh(), factor, dim_size=size[1], dim=0)
            inputs = torch.cat([aggregated[factor], state], dim=-1)
        message: Tensor = self.message_mlp(inputs)
        return message


def _mlp(in_channels: int, mlp_channels: int, out_channels: int) -> torch.nn.Sequential:
    return torch.nn.Sequential(
        torch.nn.Linear(in_channels, mlp_channels), torch.nn.SiLU(), torch.nn.Linear(mlp_channels, out_channels)
    )
