"""``schema.yaml``: what the columns of a user's tables are, where their names do not tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, PositiveInt, ValidationError

from tgnn.utils.suggest import closest_match
from tgnn.utils.yaml import parse_yaml

Kind = Literal["numeric", "categorical", "tokens", "ignore"]
Standardize = bool | Literal["large"]
Task = Literal["classes", "multi-label", "regression"]
FILE = "schema.yaml"
_WANTED = {
    "bool_type": "true or false",
    "float_type": "a number",
    "int_type": "a whole number",
    "string_type": "a name (in quotation marks, if it is a number)",
    "list_type": "a list of names",
    "dict_type": "lines of its own, such as 'age: numeric'",
    "model_type": "lines of its own, such as 'features: ...'",
    "invalid_key": "a name (in quotation marks, if it is a number)",
    "string_too_short": "at least one character",
}
"""What pydantic wants, in our words."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class NodeColumns(_Strict):
    """Columns of ``nodes``."""

    id: str | None = None
    """Default: ``id``, ``node`` or ``node_id``, else the first column."""
    graph: str | None = None
    """The graph a node is in, for a set of graphs. Default: ``graph`` or ``graph_id``."""
    label: str | list[str] | None = None
    """What to predict; several columns for several targets. Default: ``label``, ``y``, ``target`` or ``class``."""
    split: str | None = None
    """``train``, ``val``, ``test`` or empty. Default: ``split``."""
    features: dict[str, Kind] = Field(default_factory=dict)
    """What a column holds. Those not named: numbers are numeric, words are categorical."""


class EdgeColumns(_Strict):
    """Columns of ``edges``."""

    source: str | None = None
    """Default: ``source``, ``src`` or ``from``, else the first column."""
    target: str | None = None
    """Default: ``target``, ``dst`` or ``to``, else the second column."""
    graph: str | None = None
    """Default: ``graph`` or ``graph_id``."""
    weight: str | None = None
    """From 0 (as if there were no edge) to 1. Default: ``weight``."""
    features: dict[str, Kind] = Field(default_factory=dict)
    """As for nodes."""


class GraphColumns(_Strict):
    """Columns of ``graphs``."""

    id: str | None = None
    """Default: ``id``, ``graph`` or ``graph_id``, else the first column."""
    label: str | list[str] | None = None
    """As for nodes."""
    split: str | None = None
    """As for nodes."""


class Schema(_Strict):
    """All that can be said of a folder of tables; everything has a default.

    Example:
        >>> Schema(undirected=False, nodes={"label": "kind", "features": {"town": "categorical"}}).nodes.label
        'kind'
    """

    nodes: NodeColumns = NodeColumns()
    edges: EdgeColumns = EdgeColumns()
    graphs: GraphColumns = GraphColumns()
    task: Task | None = None
    """Default: whole numbers and words are classes, other numbers regression."""
    undirected: bool = True
    """Whether each edge stands for both directions: the reverse is added where it is missing."""
    self_loops: Literal["drop", "keep"] = "drop"
    """tGNN counts a node among its neighbours anyway."""
    duplicates: Literal["merge", "keep"] = "merge"
    """Of the rows that name the same edge, the first counts."""
    dangling: Literal["error", "drop"] = "error"
    """What to do with an edge to a node that is not there."""
    scale_weights: bool = False
    """Whether to divide weights by the largest of them, where they are larger than 1."""
    fill: FiniteFloat | Literal["mean"] | None = None
    """What to take for a number that is missing; without it, one that is missing is an error."""
    standardize: Standardize = "large"
    """Which columns of numbers are brought to mean 0 and deviation 1: by default those with a number beyond 100."""
    separator: str | None = Field(default=None, min_length=1)
    """Between tokens and between labels in one cell. Default: ``;`` where there is one, else spaces."""
    max_categories: PositiveInt = 1000
    """More different words in one column are an error."""


def read_schema(folder: Path) -> Schema:
    """The schema of a folder; without a file, the defaults.

    Args:
        folder: Where ``schema.yaml`` may be.
    """
    path = folder / FILE
    if not path.is_file():
        if (other := folder / "schema.yml").is_file():
            raise ValueError(f"{other.name} is not read: call it {FILE}")
        return Schema()
    try:
        content = parse_yaml(path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not YAML: {error}") from error
    return make_schema({} if content is None else content)


def make_schema(content: object) -> Schema:
    """Checks a schema; an error names every wrong key, and the nearest right one.

    Args:
        content: As YAML gives it.

    Example:
        >>> make_schema({"undirect": True})
        Traceback (most recent call last):
        ValueError: there is no 'undirect'; did you mean 'undirected'?
    """
    if not isinstance(content, Mapping):
        raise ValueError(f"it must have lines such as 'undirected: false', got {content!r}")
    try:
        return Schema.model_validate(dict(content))
    except ValidationError as error:
        raise ValueError("; ".join(_told(error.errors()))) from None


def suggestion(name: str, names: Iterable[str]) -> str:
    """What was probably meant, or what there is.

    Example:
        >>> suggestion("lable", ["id", "label"])
        "did you mean 'label'?"
    """
    names = list(names)
    meant = closest_match(name, names)
    return f"did you mean {meant!r}?" if meant else f"there are {', '.join(map(repr, names[:20]))}"


def _told(errors: Iterable[Any]) -> Iterator[str]:
    """One line for each wrong place: where several types are allowed, pydantic complains once for each of them."""
    parts: dict[str, type[_Strict]] = {"nodes": NodeColumns, "edges": EdgeColumns, "graphs": GraphColumns}
    wrong: dict[tuple[str, ...], list[Any]] = {}
    for error in errors:
        depth = 3 if error["loc"][1:2] == ("features",) else 2 if error["loc"][0] in parts else 1
        wrong.setdefault(tuple(map(str, error["loc"][:depth])), []).append(error)
    for keys, several in wrong.items():
        place = ".".join(keys)
        if several[0]["type"] == "extra_forbidden":
            there = parts[keys[0]] if len(keys) > 1 else Schema
            yield f"there is no {place!r}; {suggestion(keys[-1], there.model_fields)}"
        else:
            wants = (_WANTED.get(e["type"], e["msg"].removeprefix("Input should be ")) for e in several)
            wanted = " or ".join(dict.fromkeys(wants))
            yield f"{place} is {several[0]['input']!r}, but should be {wanted}"
