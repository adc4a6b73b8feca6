"""Readers of CSV, TSV and Parquet tables of nodes, edges and graphs.

:mod:`.single_graph` reads one graph into memory, :mod:`.multiple_graphs` reads a data set of many graphs.
"""
