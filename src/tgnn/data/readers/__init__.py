"""Readers of file formats, one module per format."""
