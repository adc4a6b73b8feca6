"""Data sets: by name, from files, and how they are split."""
