"""Builders: raw material (molecules, images, text files) to graphs, for machines that cannot reach ready ones."""
