"""Readers: one file format each, to PyG's ``Data``."""
