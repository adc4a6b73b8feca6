"""Hyperparameter search with Optuna. Trials are scored on the validation set only."""
