"""A result as files to read, to reckon with and to print."""

from __future__ import annotations

from pathlib import Path

from tgnn.experiments.format_csv import as_csv
from tgnn.experiments.format_latex import latex
from tgnn.experiments.format_markdown import markdown
from tgnn.experiments.results import Result
from tgnn.utils.io import write_text


def write_texts(result: Result, folder: Path) -> list[Path]:
    """Writes ``<name>.md``, ``.csv`` and ``.tex``; gives their paths."""
    paths = []
    for suffix, text in ((".md", markdown(result)), (".csv", as_csv(result)), (".tex", latex(result))):
        path = folder / f"{result.name}{suffix}"
        write_text(path, text)
        paths.append(path)
    return paths
