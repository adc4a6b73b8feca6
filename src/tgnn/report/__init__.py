"""Report page: one self-contained HTML file with the tables, figures and learning curves of results and runs."""
