"""Write the tables of a result as Markdown, CSV and LaTeX files."""

from __future__ import annotations

from pathlib import Path

from tgnn.experiments.format_csv import to_csv
from tgnn.experiments.format_latex import to_latex
from tgnn.experiments.format_markdown import to_markdown
from tgnn.experiments.results import Result
from tgnn.utils.io import write_text


def write_tables(result: Result, folder: Path) -> list[Path]:
    """Write ``<name>.md``, ``<name>.csv`` and ``<name>.tex`` to a folder and return their paths."""
    paths = []
    for suffix, text in ((".md", to_markdown(result)), (".csv", to_csv(result)), (".tex", to_latex(result))):
        path = folder / f"{result.name}{suffix}"
        write_text(path, text)
        paths.append(path)
    return paths
