"""YAML as users write it, in which no key stands twice: the second would silently count."""

from __future__ import annotations

from typing import Any

import yaml


def parse_yaml(text: str) -> Any:
    r"""What a text says.

    Args:
        text: Of a file.

    Example:
        >>> parse_yaml("fill: mean")
        {'fill': 'mean'}
        >>> parse_yaml("fill: mean\nfill: 0")
        Traceback (most recent call last):
        ValueError: line 2 has the key 'fill' for the second time: keep one of them
    """
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise ValueError(f"it is not YAML: {error}") from error


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                line = key.start_mark.line + 1
                raise ValueError(f"line {line} has the key {key.value!r} for the second time: keep one of them")
            seen.add(key.value if isinstance(key, yaml.ScalarNode) else None)
        return super().construct_mapping(node, deep)
