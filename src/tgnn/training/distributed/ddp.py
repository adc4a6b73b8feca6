"""A model in one of several processes, whose gradients are those of all: DistributedDataParallel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from tgnn.training.distributed.sync_batch_norm import synchronize_batch_norms

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from tgnn.training.loaders import TrainingBatch


class DataParallelModel:
    """Called with a piece, it gives the model's outputs; ``backward`` then averages gradients over processes.

    Args:
        model: The same in all; those of the first process are the weights. Its normalizations are shared from now on.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        # A group of their own: what they say must never meet what is said of gradients.
        self._norms = synchronize_batch_norms(model, dist.new_group())
        # Which weights a part of a batch does not use differs between processes.
        self._shared = DistributedDataParallel(_WithExtraLoss(model), find_unused_parameters=True)

    def __call__(self, piece: TrainingBatch) -> Tensor:
        for norm in self._norms:
            norm.counts = not piece.stands_in
        out: Tensor = self._shared(piece.data)[0]
        return out


class _WithExtraLoss(torch.nn.Module):
    """Gives all that is learned from, so that it is seen which weights had a part in it."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model
        self.idle = torch.nn.Parameter(next(model.parameters()).new_zeros(1))  # torch warns where it finds none such

    def forward(self, data: Data) -> tuple[Tensor, Tensor | None]:
        return self.model(data), getattr(self.model, "extra_loss", None)
