"""``schema.yaml``: column roles, column types and reading options of a folder of tables."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, FiniteFloat, PositiveInt, ValidationError

from tgnn.data.task_types import TaskTypeName, check_task_type
from tgnn.utils.read import StoredModel, read_content
from tgnn.utils.suggest import closest_match

ColumnType = Literal["numeric", "categorical", "tokens", "ignore"]
Standardize = bool | Literal["large"]
FILE = "schema.yaml"
_EXPECTED = {
    "bool_type": "true or false",
    "float_type": "a number",
    "int_type": "an integer",
    "string_type": "a name (in quotation marks if it is a number)",
    "list_type": "a list of names",
    "dict_type": "a mapping such as 'age: numeric'",
    "model_type": "a mapping such as 'features: ...'",
    "invalid_key": "a name (in quotation marks if it is a number)",
    "string_too_short": "at least one character",
}
"""Readable names of what pydantic expects, by its error type."""


class NodeColumns(StoredModel):
    """Columns of the node table."""

    id: str | None = None
    """Node id. Default: ``id``, ``node`` or ``node_id``, else a column such as ``user_id`` with distinct values, else
    the first column."""
    graph: str | None = None
    """Graph id of the node, for a data set of many graphs. Default: ``graph`` or ``graph_id``."""
    label: str | list[str] | None = None
    """Target; several columns for several targets. Default: ``label``, ``y``, ``target`` or ``class``."""
    split: str | None = None
    """``train``, ``val``, ``test`` or empty. Default: ``split``."""
    features: dict[str, ColumnType] = Field(default_factory=dict)
    """Type of feature columns. Default: ``numeric`` for numbers, ``categorical`` for strings."""


class EdgeColumns(StoredModel):
    """Columns of the edge table."""

    source: str | None = None
    """Source node id. Default: ``source``, ``src`` or ``from``, else the first column."""
    target: str | None = None
    """Target node id. Default: ``target``, ``dst`` or ``to``, else the second column."""
    graph: str | None = None
    """Graph id of the edge, for a data set of many graphs. Default: ``graph`` or ``graph_id``."""
    weight: str | None = None
    """Edge weight from 0 (no effect) to 1. Default: ``weight``."""
    features: dict[str, ColumnType] = Field(default_factory=dict)
    """Type of edge feature columns, as for nodes."""


class GraphColumns(StoredModel):
    """Columns of the graph table."""

    id: str | None = None
    """Graph id. Default: ``id``, ``graph`` or ``graph_id``, else a column such as ``user_id`` with distinct values,
    else the first column."""
    label: str | list[str] | None = None
    """Target, as for nodes."""
    split: str | None = None
    """Split, as for nodes."""


class Schema(StoredModel):
    """Content of ``schema.yaml``. Every key has a default.

    Example:
        >>> Schema(undirected=False, nodes={"label": "kind", "features": {"town": "categorical"}}).nodes.label
        'kind'
    """

    nodes: NodeColumns = NodeColumns()
    edges: EdgeColumns = EdgeColumns()
    graphs: GraphColumns = GraphColumns()
    task: TaskTypeName | None = None
    """Default: classification for integers and strings, regression for other numbers."""
    undirected: bool = True
    """Whether to add the reverse of every edge that does not have one."""
    self_loops: Literal["drop", "keep"] = "drop"
    """What to do with self-loops. The tGNN layers include every node in its own neighborhood anyway."""
    duplicates: Literal["merge", "keep"] = "merge"
    """What to do with several rows for one edge: use the first row only, or keep all of them."""
    dangling: Literal["error", "drop"] = "error"
    """What to do with an edge whose source or target is not in the node table."""
    scale_weights: bool = False
    """Whether to divide the edge weights by the largest one if it is larger than 1."""
    fill: FiniteFloat | Literal["mean"] | None = "mean"
    """Value for missing numbers: the mean of the column, or a number. With ``null``, a missing number is an error."""
    standardize: Standardize = True
    """Which numeric columns to standardize to mean 0 and standard deviation 1: all (true), none (false) or those with
    an absolute value above 100 (``"large"``)."""
    separator: str | None = Field(default=None, min_length=1)
    """Separator of tokens and of several labels in one cell. Default: ``;`` if the column contains one, else a
    space."""
    max_categories: PositiveInt = 1000
    """Maximum number of categories of a column. More are an error."""


@dataclass(frozen=True)
class ReadOptions:
    """Options of the user for one reading of tables or molecules. They have priority over ``schema.yaml``.

    Args:
        target: Columns to predict. Empty: those of the schema, else recognized by name.
        id: Column of ids. ``None``: that of the schema, else recognized by name.
        task: ``"classification"``, ``"multi-label"`` or ``"regression"``. ``None``: inferred from the labels.
        strict: Whether a molecule that cannot be read is an error. Otherwise it is skipped with a warning.
        use_stored_split: Whether to read the split although an encoding is given (training data of a run).
        require_labels: Whether new data must have labels. Otherwise the column of labels may be missing.
    """

    target: tuple[str, ...] = ()
    id: str | None = None
    task: TaskTypeName | None = None
    strict: bool = False
    use_stored_split: bool = False
    require_labels: bool = False

    def __post_init__(self) -> None:
        if self.task is not None:
            check_task_type(self.task)

    def apply(self, schema: Schema, stem: Literal["nodes", "graphs"]) -> Schema:
        """Return the schema with these columns of the table of nodes or graphs, and with this task."""
        given = {"label": list(self.target) or None, "id": self.id}
        columns = getattr(schema, stem).model_copy(update={k: v for k, v in given.items() if v is not None})
        return schema.model_copy(update={stem: columns, "task": self.task or schema.task})


def read_schema(folder: Path) -> Schema:
    """Read ``schema.yaml`` of a folder, or return the defaults if there is none."""
    path = folder / FILE
    if not os.path.lexists(path):  # a broken link is an error
        if (other := folder / "schema.yml").is_file():
            raise ValueError(f"{other.name} is not read; rename it to {FILE}")
        return Schema()
    try:
        content = read_content(path)
    except ValueError as error:  # the report names the file
        raise ValueError(str(error).removeprefix(f"{path}").removeprefix(" is").lstrip(": ")) from None
    return make_schema({} if content is None else content)


def make_schema(content: object) -> Schema:
    """Validate a parsed schema. The error lists every invalid key and suggests the most similar valid key."""
    if not isinstance(content, Mapping):
        raise ValueError(f"expected keys and values such as 'undirected: false', got {content!r}")
    try:
        return Schema.model_validate(dict(content))
    except ValidationError as error:
        raise ValueError("; ".join(_validation_messages(error.errors()))) from None


def suggestion(name: str, names: Iterable[str]) -> str:
    """Suggest the most similar name, or list all of them."""
    names = list(names)
    match = closest_match(name, names)
    return f"did you mean {match!r}?" if match else f"available: {', '.join(map(repr, names[:20]))}"


def _validation_messages(errors: Iterable[Any]) -> Iterator[str]:
    """Yield one message per invalid key. Pydantic reports an error for each type of a union."""
    sections: dict[str, type[StoredModel]] = {"nodes": NodeColumns, "edges": EdgeColumns, "graphs": GraphColumns}
    by_key: dict[tuple[str, ...], list[Any]] = {}
    for error in errors:
        depth = 3 if error["loc"][1:2] == ("features",) else 2 if error["loc"][0] in sections else 1
        by_key.setdefault(tuple(map(str, error["loc"][:depth])), []).append(error)
    for keys, key_errors in by_key.items():
        name = ".".join(keys)
        if key_errors[0]["type"] == "extra_forbidden":
            section = sections[keys[0]] if len(keys) > 1 else Schema
            yield f"unknown key {name!r}; {suggestion(keys[-1], section.model_fields)}"
        else:
            expected = (_EXPECTED.get(e["type"], e["msg"].removeprefix("Input should be ")) for e in key_errors)
            yield f"{name} is {key_errors[0]['input']!r}, but must be {' or '.join(dict.fromkeys(expected))}"
