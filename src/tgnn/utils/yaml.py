"""YAML parser that rejects duplicate keys and reads ``1e-3`` as a number."""

from __future__ import annotations

import re
from typing import Any

import yaml


def parse_yaml(text: str) -> Any:
    r"""Parse a YAML document. Raises a ``ValueError`` for a text that is not valid, or for a duplicate key.

    Example:
        >>> parse_yaml("fill: mean")
        {'fill': 'mean'}
        >>> parse_yaml("fill: 1e-3")
        {'fill': 0.001}
        >>> parse_yaml("fill: mean\nfill: 0")
        Traceback (most recent call last):
        ValueError: line 2 repeats the key 'fill'; keep one of them
    """
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        where = "" if error.problem_mark is None else f" (line {error.problem_mark.line + 1})"
        raise ValueError(f"not valid YAML: {error.problem}{where}") from error
    except yaml.YAMLError as error:  # for example an invalid character
        raise ValueError(f"not valid YAML: {error}") from error


class _Loader(yaml.SafeLoader):
    """Safe loader that checks for duplicate keys before ``<<`` merges other mappings."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
                continue
            if key.value in seen:
                line = key.start_mark.line + 1
                raise ValueError(f"line {line} repeats the key {key.value!r}; keep one of them")
            seen.add(key.value)
        return node


_Loader.add_implicit_resolver(  # YAML 1.1 reads 1e-3 as a string
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)
