"""What the README shows works when typed."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run_blocks(name: str) -> dict[str, object]:
    """Runs the Python of a page from top to bottom."""
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


def test_the_examples_of_the_page_on_data():
    assert run_blocks("docs/data.md")["data"].num_nodes == 1797  # type: ignore[attr-defined]


PAGES = ["README.md", "CONTRIBUTING.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name):
    text = (ROOT / name).read_text()
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if target.startswith("https://"):
            continue
        assert (ROOT / name).parent.joinpath(target).exists(), target
