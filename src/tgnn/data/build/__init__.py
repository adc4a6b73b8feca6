"""Builders of graphs from molecules, images and text files, for machines that cannot download the official graphs."""
