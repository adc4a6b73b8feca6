"""The systems the paper compares with, made high-order by :func:`tgnn.with_cp`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import torch
from pydantic import Field
from torch_geometric.data import Batch, Data

from tgnn.models.data_shape import DataShape
from tgnn.nn import with_cp

Build = Callable[..., torch.nn.Module]
_RANK = Annotated[int, Field(ge=1)]


def high_order(build: Build) -> Build:
    """A builder of the same model whose layers and readouts multiply as well; it has the setting ``rank``."""
    own = inspect.signature(build)
    knows_rank = "rank" in own.parameters

    @functools.wraps(build)
    def build_with_cp(
        shape: DataShape, hidden_channels: int, num_layers: int, dropout: float, *, rank: int = 8, **settings: Any
    ) -> torch.nn.Module:
        settings |= {"rank": rank} if knows_rank else {}
        model = with_cp(build(shape, hidden_channels, num_layers, dropout, **settings), rank, verbose=False)
        _settle(model, shape)
        return model

    rank = inspect.Parameter("rank", inspect.Parameter.KEYWORD_ONLY, default=8, annotation=_RANK)
    others = [parameter for parameter in own.parameters.values() if parameter.name != "rank"]
    build_with_cp.__signature__ = own.replace(parameters=[*others, rank])  # type: ignore[attr-defined]
    build_with_cp.__annotations__ = {**get_type_hints(build, include_extras=True), "rank": _RANK}
    return build_with_cp


@torch.no_grad()
def _settle(model: torch.nn.Module, shape: DataShape) -> None:
    """Shows the model two nodes, so that layers whose width an input tells have their weights."""

    def rows(width: int | tuple[int, ...] | None, count: int) -> torch.Tensor | None:
        if width is None:
            return None
        return torch.zeros(count, width) if isinstance(width, int) else torch.zeros(count, len(width), dtype=torch.long)

    edges = torch.tensor([[0, 1], [1, 0]])
    data = Data(rows(shape.features, 2), edges, rows(shape.edge_features, 2), num_nodes=2)
    training = model.training
    model.eval()
    model(data if shape.level == "node" else Batch.from_data_list([data]))
    model.train(training)
