"""The code blocks of docs/estimators.md run."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "estimators.md"


def test_the_examples_of_the_page():
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), flags=re.M | re.S)
    assert len(blocks) == 5
    names: dict[str, object] = {}
    for block in blocks:
        assert "assert " in block
        exec(block, names)


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE.read_text()):
        assert (PAGE.parent / target).exists(), target
