"""What the README shows works when typed."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_examples_of_the_readme():
    blocks = re.findall(r"^ *```python\n(.*?)^ *```", (ROOT / "README.md").read_text(), flags=re.M | re.S)
    assert len(blocks) >= 6
    names: dict[str, object] = {}
    for block in blocks:
        exec(textwrap.dedent(block), names)
    x, edge_index = names["x"], names["edge_index"]
    assert names["model"](x, edge_index).shape == (4, 7)  # type: ignore[operator]
    assert names["changed"](x, edge_index).shape == (4, 7)  # type: ignore[operator]


@pytest.mark.parametrize(
    "name", ["README.md", "CONTRIBUTING.md", "docs/numerics.md", "docs/layers.md", "docs/theory.md"]
)
def test_links_lead_somewhere(name):
    text = (ROOT / name).read_text()
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if target.startswith("https://"):
            continue
        assert (ROOT / name).parent.joinpath(target).exists(), target
