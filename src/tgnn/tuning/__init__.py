"""Search for settings: Optuna over the ranges of :mod:`tgnn.models.ranges`, judged on validation only."""
