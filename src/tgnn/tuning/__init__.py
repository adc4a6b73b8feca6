"""Search for settings: Optuna over the ranges of :mod:`tgnn.baselines.ranges`, judged on validation only."""
