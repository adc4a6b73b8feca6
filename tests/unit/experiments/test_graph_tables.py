"""Networks of Table 2 on graphs of each kind: superpixels and molecules."""

from __future__ import annotations

import numpy as np
import pytest

from tgnn.experiments.definitions import EXPERIMENTS
from tgnn.experiments.experiment import Selection
from tgnn.training.config import make_config, with_options
from tgnn.training.loop import Trainer
from tgnn.training.prepare import make_model, prepare_without_test


@pytest.fixture
def superpixel_root(tmp_path):
    """Write 50 random graphs of 12 superpixels as a part of CIFAR10."""
    rng = np.random.default_rng(0)
    (tmp_path / "cifar10_superpixels").mkdir()
    np.savez(
        tmp_path / "cifar10_superpixels/graphs.npz",
        num_nodes=np.full(50, 12, np.int32),
        x=rng.integers(0, 256, (600, 3), np.uint8),
        x_scale=np.float32(1 / 255),
        pos=rng.integers(0, 256, (600, 2), np.uint8),
        pos_scale=np.float32(1 / 256),
        y=(np.arange(50) % 10).astype(np.int8),
        split=np.repeat(np.arange(3, dtype=np.int8), [30, 10, 10]),
        origin=np.array("random superpixels"),
    )
    return tmp_path


def test_every_network_of_table_2_trains_on_superpixels(superpixel_root):
    """MoNet takes the positions of the superpixels, and DGN and PNA their degrees."""
    for cell in EXPERIMENTS["table-2-graph"].cells(Selection(datasets=["cifar10"])):
        options = {"data.root": str(superpixel_root), "data.split": "published", "train.epochs": 1}
        config = make_config(with_options(cell.config.model_dump(mode="json"), options))
        prepared = prepare_without_test(config)
        _, progress = Trainer(make_model(config, prepared.shape), prepared, config).fit()
        assert 0 <= progress.best_score <= 1, cell.row
