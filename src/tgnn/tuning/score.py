"""How good settings are: the validation metric, split by split. Nothing here can see a test label."""

from __future__ import annotations

from collections.abc import Callable

from tgnn.training.config import Config
from tgnn.training.hearing import quietly
from tgnn.training.loop import Epoch, fit
from tgnn.training.prepare import prepare_blind
from tgnn.training.run import find_device, make_model, set_threads


def validation_score(config: Config, tell: Callable[[Epoch], None] = lambda epoch: None) -> float:
    """Trains as configured and gives the best validation score; writes and says nothing.

    Args:
        config: Of one run.
        tell: Called after every epoch; what it raises ends the training.
    """
    with quietly():  # advice is for settings that somebody chose
        set_threads(config)
        prepared = prepare_blind(config)
        model = make_model(config, prepared.shape).to(find_device(config.train.device))
        _, progress = fit(model, prepared, config, None, tell=tell)
    assert progress.best_score is not None
    return progress.best_score
