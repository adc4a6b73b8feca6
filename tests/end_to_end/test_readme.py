"""The code, commands and links of the README and of the documentation work."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path
from unittest import mock

import pytest
import torch

from tgnn.models import MODELS

ROOT = Path(__file__).parents[2]


def run_blocks(name: str) -> dict[str, object]:
    """Run the Python blocks of a page from top to bottom."""
    blocks = re.findall(r"^ *```python\n(.*?)^ *```", (ROOT / name).read_text(), flags=re.M | re.S)
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(textwrap.dedent(block), names)
    return names


def test_the_examples_of_the_readme():
    names = run_blocks("README.md")
    x, edge_index = names["x"], names["edge_index"]
    assert names["model"](x, edge_index).shape == (4, 7)  # type: ignore[operator]
    assert names["changed"](x, edge_index).shape == (4, 7)  # type: ignore[operator]


PAGES = ["README.md", "CONTRIBUTING.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name):
    text = (ROOT / name).read_text()
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if target.startswith("https://"):
            continue
        path = (ROOT / name).parent.joinpath(target).resolve()
        assert path.exists(), target
        assert not name.startswith("docs/") or path.is_relative_to(ROOT / "docs"), f"{target} is not on the site"


WITH_PYTHON = [name for name in PAGES[1:] if "```python" in (ROOT / name).read_text()]  # the README has its own test


@pytest.mark.parametrize("name", WITH_PYTHON)
def test_the_python_of_the_pages(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    if name == "docs/own_data.md":
        _write_tables(tmp_path)
    with mock.patch.dict(MODELS):  # CONTRIBUTING.md registers a model
        run_blocks(name)


def _write_tables(folder: Path) -> None:
    """Write the tables that the page shows, which are all files that its blocks need."""
    tables = re.findall(r"^```csv\n(.*?)^```", (ROOT / "docs/own_data.md").read_text(), flags=re.M | re.S)
    names = ("friends/nodes.csv", "friends/edges.csv", "others/nodes.csv", "others/edges.csv", "molecules.csv")
    for name, table in zip(names, tables, strict=True):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(table)


def test_the_commands_of_the_pages():
    """Every verb and every option that a page shows exists."""
    from typer.testing import CliRunner

    from tgnn.cli.app import app

    shown = {}
    for name in PAGES:
        for block in re.findall(r"^ *```sh\n(.*?)^ *```", (ROOT / name).read_text(), flags=re.M | re.S):
            for line in re.findall(r"^ *tgnn (.*?)(?: *#.*)?$", block, flags=re.M):
                shown[line] = name
    assert len(shown) > 15
    for line, name in shown.items():
        words = line.split()
        verb = words[:2] if words[0] == "data" else words[:1]
        helped = CliRunner().invoke(app, [*verb, "--help"], env={"COLUMNS": "200"})
        assert helped.exit_code == 0, (name, line)
        for option in (word.partition("=")[0] for word in words if word.startswith("--")):
            assert option in helped.output, (name, line, option)


def test_the_pages_build(tmp_path):
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    found = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stderr
    assert (tmp_path / "site/train/index.html").exists()
