"""Reproduction of the paper's tables and figures: definitions, runner, result files, statistics and output formats."""
