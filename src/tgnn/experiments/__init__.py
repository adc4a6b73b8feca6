"""The tables and figures of the paper, again: what to run, running it, and what comes out."""
