"""Readers of CSV, TSV and Parquet tables of nodes, edges and graphs.

:mod:`.read_folder` reads one graph or many graphs into memory. :mod:`.table_file` reads one table, also in blocks.
"""
