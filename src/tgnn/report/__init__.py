"""One page that shows results and runs: tables, figures, learning curves, in a file that needs no network."""
