"""YAML as users write it, in which no key stands twice: the second would silently count."""

from __future__ import annotations

import re
from typing import Any

import yaml


def parse_yaml(text: str) -> Any:
    r"""What a text says.

    Args:
        text: Of a file.

    Example:
        >>> parse_yaml("fill: mean")
        {'fill': 'mean'}
        >>> parse_yaml("fill: 1e-3")
        {'fill': 0.001}
        >>> parse_yaml("fill: mean\nfill: 0")
        Traceback (most recent call last):
        ValueError: line 2 has the key 'fill' for the second time: keep one of them
    """
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        where = "" if error.problem_mark is None else f" (line {error.problem_mark.line + 1})"
        raise ValueError(f"it is not YAML: {error.problem}{where}") from error
    except yaml.YAMLError as error:  # such as a character that may not be there
        raise ValueError(f"it is not YAML: {error}") from error


class _Loader(yaml.SafeLoader):
    """Looks at keys as they are written, before ``<<`` brings in others."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
                continue
            if key.value in seen:
                line = key.start_mark.line + 1
                raise ValueError(f"line {line} has the key {key.value!r} for the second time: keep one of them")
            seen.add(key.value)
        return node


_Loader.add_implicit_resolver(  # which YAML 1.1 takes for a word
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)
