"""DistributedDataParallel for batches of graphs: gradients are averaged over all ranks."""

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
    """Forward pass of a model on one rank. ``backward`` averages the gradients over all ranks.

    Args:
        model: The model. Rank 0's weights are used on all ranks, and its batch normalizations are synchronized.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        # Batch normalization needs its own process group, because its messages interleave with the gradients'.
        self._norms = synchronize_batch_norms(model, dist.new_group())
        # The parameters that a part of a batch does not use differ between ranks.
        self._parallel = DistributedDataParallel(_WithExtraLoss(model), find_unused_parameters=True)

    def __call__(self, batch: TrainingBatch) -> Tensor:
        for norm in self._norms:
            norm.is_counted = not batch.is_placeholder
        out: Tensor = self._parallel(batch.data)[0]
        return out


class _WithExtraLoss(torch.nn.Module):
    """Return the outputs and the extra loss, so that DDP finds the parameters used by either."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model
        self.unused = torch.nn.Parameter(next(model.parameters()).new_zeros(1))  # torch warns if no parameter is unused

    def forward(self, data: Data) -> tuple[Tensor, Tensor | None]:
        return self.model(data), getattr(self.model, "extra_loss", None)
