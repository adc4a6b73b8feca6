"""A user's own tables: nodes and edges, as CSV or Parquet. :mod:`.graph` reads one graph, :mod:`.graphs` many."""
