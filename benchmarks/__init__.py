"""Benchmarks of all speed and memory figures in the documentation: ``make bench``."""
