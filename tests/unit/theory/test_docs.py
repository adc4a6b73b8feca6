"""What docs/theory.md shows works when typed."""

from __future__ import annotations

import re
from pathlib import Path

import torch

PAGE = Path(__file__).parents[3] / "docs" / "theory.md"


def test_the_examples_of_the_page():
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), flags=re.M | re.S)
    assert len(blocks) >= 4
    names: dict[str, object] = {}
    torch.manual_seed(0)
    for block in blocks:  # each ends with assertions
        assert "assert " in block
        exec(block, names)


def test_links_lead_somewhere():
    targets = re.findall(r"\]\(([^)#]+)\)", PAGE.read_text())
    assert "images/function_spaces.png" in targets
    for target in targets:
        assert target.startswith("https://") or (PAGE.parent / target).exists(), target
