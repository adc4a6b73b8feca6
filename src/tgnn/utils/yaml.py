"""YAML parser with bounds: no duplicate keys, no deep nesting, no aliases that expand, and values of JSON only."""

from __future__ import annotations

import re
from typing import Any

import yaml

MAX_DEPTH = 50
"""Maximum nesting of mappings and lists."""
_MAX_VALUES = 1_000_000
"""Maximum number of values of a document whose aliases are replaced by what they refer to."""
_TAGS = ("map", "seq", "str", "int", "float", "bool", "null", "merge")


def parse_yaml(text: str) -> Any:
    r"""Parse a YAML document. A ``ValueError`` says why a text is not valid or exceeds the bounds.

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
    except RecursionError:  # nested flow collections, whose tokens are scanned recursively
        raise ValueError(f"not valid YAML: nested more than {MAX_DEPTH} levels deep") from None


class _Loader(yaml.SafeLoader):
    """Safe loader that checks nesting, aliases and duplicate keys while it composes the document."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth, self._count = 0, 0
        self._values: dict[str, int | None] = {}  # number of values of each anchor, None while it is composed

    def compose_node(self, parent: Any, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        anchor, mark, before = event.anchor, event.start_mark, self._count
        if isinstance(event, yaml.AliasEvent) and anchor in self._values:
            values = self._values[anchor]
            if values is None:
                raise yaml.MarkedYAMLError(problem=f"*{anchor} contains itself", problem_mark=mark)
            self._count += values
        elif anchor is not None:
            self._values[anchor] = None
        self._depth, self._count = self._depth + 1, self._count + 1
        if self._depth > MAX_DEPTH or self._count > _MAX_VALUES:
            problem = f"more than {_MAX_VALUES:,} values" if self._depth <= MAX_DEPTH else "nested too deeply"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if anchor is not None:
            self._values[anchor] = self._count - before
        return node

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


_Loader.yaml_constructors = {  # without dates, sets and binary data, which JSON has not
    tag: construct
    for tag, construct in yaml.SafeLoader.yaml_constructors.items()
    if tag is None or tag.rpartition(":")[2] in _TAGS
}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] in _TAGS]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(  # YAML 1.1 reads 1e-3 as a string
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)
