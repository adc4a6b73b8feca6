"""EdgeGate: the gates of a gated sum branch, computed from both ends and the features of each edge."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn.inits import reset

from tgnn.nn.feature_maps import FeatureLinear
from tgnn.nn.neighborhood import Neighborhood
from tgnn.ops import gated_sum


class EdgeGate(torch.nn.Module):
    r"""Sum messages with a gate per edge and channel, from the `"Residual Gated Graph ConvNets"
    <https://arxiv.org/abs/1711.07553>`_ paper (GatedGCN).

    .. math::
        \sum_{u \in S(v)} \eta_{uv} \odot m_u, \qquad \eta_{uv} = \sigma(A x_v + B x_u + C e_{uv})

    The bias of the gates belongs to :math:`A`. Self-loops have no edge features, so their term :math:`C e` is 0.

    Args:
        in_src: Number of features of the sources.
        in_dst: Number of features of the destinations.
        channels: Number of channels of the messages.
        edge_dim: Number of edge features, or ``None``.

    Example:
        >>> EdgeGate(4, 4, 8, edge_dim=None).lin_src(torch.randn(3, 4)).shape
        torch.Size([3, 8])
    """

    def __init__(self, in_src: int, in_dst: int, channels: int, edge_dim: int | None) -> None:
        super().__init__()
        self.lin_src = FeatureLinear(in_src, channels)
        self.lin_dst = FeatureLinear(in_dst, channels, bias=True)
        self.lin_edge = None if edge_dim is None else FeatureLinear(edge_dim, channels, input_name="edge_attr")

    def reset_parameters(self) -> None:
        for module in self.children():
            reset(module)

    def forward(
        self,
        messages: Tensor,
        gate_src: Tensor,
        x_dst: Tensor,
        neighborhood: Neighborhood,
        normalize: bool,
        return_edge_state: bool,
    ) -> tuple[Tensor, Tensor | None]:
        """Compute the gated sum ``[N_dst, channels]`` and, on request, the arguments ``[E, channels]`` of the gates.

        Args:
            messages: Messages :math:`m` of the sources.
            gate_src: Terms :math:`B x_u` of the sources, computed by ``lin_src``.
            x_dst: Features of the destinations.
            neighborhood: Neighborhood of each destination, with self-loops as edges.
            normalize: Whether to divide by the sum of the gates.
            return_edge_state: Whether to return :math:`A x_v + B x_u + C e_{uv}` of each edge.
        """
        gate_edge = None
        if self.lin_edge is not None:
            gate_edge = neighborhood.pad_self_loops(self.lin_edge(neighborhood.edge_attr))
        found: Tensor | tuple[Tensor, Tensor] = gated_sum(  # type: ignore[call-overload]
            messages,
            neighborhood.graph,
            gate_src=gate_src,
            gate_dst=self.lin_dst(x_dst),
            gate_edge=gate_edge,
            edge_weight=neighborhood.weight,
            normalize=normalize,
            size=neighborhood.size,
            return_edge_state=return_edge_state,
        )
        return (found, None) if isinstance(found, Tensor) else found
