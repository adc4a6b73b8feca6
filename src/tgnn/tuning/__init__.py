"""Search for settings: Optuna over the ranges of :func:`tgnn.models.search_space`, judged on validation only."""
