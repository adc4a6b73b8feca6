"""Readers of CSV, TSV and Parquet tables of nodes, edges and graphs."""
