"""Assignment of roles (id, label, split, source, target, weight, feature) to the columns of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tgnn.data.tables.schema import ColumnType, EdgeColumns, GraphColumns, NodeColumns, suggestion
from tgnn.data.tables.text_file import INDEX
from tgnn.data.validation.report import Reporter, quoted

_NAMES = {
    "nodes": {"id": ("id", "node", "node_id"), "split": ("split",)},
    "nodes of graphs": {"id": ("id", "node", "node_id"), "graph": ("graph", "graph_id")},
    "edges": {"source": ("source", "src", "from"), "target": ("target", "dst", "to"), "weight": ("weight",)},
    "graphs": {"id": ("id", "graph", "graph_id"), "split": ("split",)},
}
_NAMES["edges of graphs"] = _NAMES["edges"] | {"graph": ("graph", "graph_id")}
_LABEL_NAMES = ("label", "y", "target", "class")
_ROLES_BY_POSITION = ("id", "source", "target")
"""Roles that fall back to the first free column if no column has a known name."""


@dataclass(frozen=True)
class ColumnRoles:
    """Roles of the columns of one table: the column of each role, the columns to predict, and the features.

    ``features`` has the type of each column if the schema sets it. ``guessed`` columns have their role only because of
    their position.
    """

    by_role: Mapping[str, str] = field(default_factory=dict)
    labels: list[str] = field(default_factory=list)
    features: Mapping[str, ColumnType | None] = field(default_factory=dict)
    guessed: list[str] = field(default_factory=list)

    def text(self) -> set[str]:
        """Return the columns that are read as strings. ``007`` is an id, and ``1`` may be the name of a class."""
        strings = {name for name, type_ in self.features.items() if type_ in ("categorical", "tokens", "ignore")}
        return strings | set(self.labels) | {name for role, name in self.by_role.items() if role != "weight"}

    def details(self) -> list[str]:
        """Return the weight column and the feature columns that are used."""
        weight = [self.by_role["weight"]] if "weight" in self.by_role else []
        return weight + [name for name, type_ in self.features.items() if type_ != "ignore"]

    def to_schema(self) -> dict[str, str | list[str]]:
        """Return the schema section that assigns the same roles."""
        return {**self.by_role, **({"label": self.labels} if self.labels else {})}


def find_roles(
    file: Reporter,
    columns: Sequence[str],
    part: str,
    given: NodeColumns | EdgeColumns | GraphColumns,
    *,
    labels: bool = False,
    guess: bool = True,
    is_unique: Callable[[str], bool] = lambda column: False,
) -> ColumnRoles:
    """Assign at most one role to every column: by the schema, else by name, else by position.

    ``part`` is ``"nodes"``, ``"edges"`` or ``"graphs"``, or ``"nodes of graphs"`` or ``"edges of graphs"`` for a data
    set of many graphs. Without ``guess``, only the schema (``given``) assigns roles. A column such as ``user_id`` has
    the ids if ``is_unique`` says that its values are distinct.
    """
    stem, names = part.split()[0], _NAMES[part] | ({"label": _LABEL_NAMES} if labels else {})
    present = dict.fromkeys(columns)
    types: Mapping[str, ColumnType] = getattr(given, "features", {})
    roles: dict[str, list[str]] = {}
    used: dict[str, str] = {}

    def check_exists(column: str, role: str) -> None:
        if column not in present:
            file.error("columns", f"there is no column {column!r} for {stem}.{role}; {suggestion(column, columns)}")

    def assign(role: str, chosen: list[str]) -> None:
        roles[role] = chosen
        for column in chosen:
            if column in used:
                file.error("columns", f"column {column!r} has two roles, {used[column]} and {role}")
            check_exists(column, role)
            used[column] = role

    def free_columns() -> list[str]:
        return [column for column in columns if column not in used and column not in types]

    for column in types:
        check_exists(column, "features")
    for role, value in given:
        if role != "features" and value is not None:
            _check_possible(file, stem, role, value, names)
            assign(role, as_list(value))
    for role, known in names.items() if guess else ():
        found = [column for name in known for column in free_columns() if column.lower() == name]
        if found and not roles.get(role):
            assign(role, found if role == "label" else found[:1])
            if role != "label" and len(found) > 1 and found[0].lower() == found[1].lower():
                text = f"columns {quoted(found[:2])} could each be the {role}; rename one of them"
                file.error("columns", text)
            if role == "label" and len(found) > 1:
                file.error(
                    "columns",
                    f"columns {quoted(found)} could each be the label; choose one in schema.yaml ({stem}: label: "
                    f"{found[0]}) and set the type of the other ({stem}: features: {found[1]}: ignore)",
                )
    if guess and part in ("nodes", "graphs") and "id" not in roles:
        assign("id", [column for column in free_columns() if like_id(column) and is_unique(column)][:1])
        if not roles["id"]:
            del roles["id"]
    if guess and part == "nodes of graphs" and "graph" not in roles:
        text = f"there is no column 'graph' with the graph id of each node, only {quoted(columns)}"
        file.error("columns", text)
    guessed = []
    for role in _ROLES_BY_POSITION:
        if role not in names or role in roles:
            continue
        if not guess:
            file.error("columns", f"the training data had no table of {stem}; remove this file")
            break
        if not (free := free_columns()):
            file.error("columns", f"there is no column for the {role}, only {quoted(columns)}")
            continue
        if free[0] != INDEX:
            file.note("guessed-column", f"no column is named {role!r}; column {free[0]!r} is used as {role}")
        assign(role, free[:1])
        guessed.append(free[0])
    features = {column: types.get(column) for column in columns if column not in used}
    if INDEX in features:
        del features[INDEX]
        text = "the first column has no name; it is ignored because it looks like an index written by pandas"
        file.note("ignored-column", text)
    label_columns = roles.pop("label", [])
    return ColumnRoles({role: column for role, (column,) in roles.items()}, label_columns, features, guessed)


def _check_possible(
    file: Reporter, stem: str, role: str, value: str | list[str], names: Mapping[str, Sequence[str]]
) -> None:
    """Report a role of the schema that this table cannot have, which would have no effect."""
    if role in names:
        return
    reason = "is only for data sets of many graphs, but there is no graph table (graphs.csv)"
    if role != "graph":
        reason = f"is only for a single graph; for a data set of many graphs set graphs.{role}"
    file.error("columns", f"{stem}.{role} ({quoted([value])}) {reason}")


def like_id(column: str) -> bool:
    """Whether a column has the name of an id: ``id``, ``name`` or ``user_id``."""
    return column.lower() in ("id", "name") or column.lower().endswith("_id")


def as_list(columns: str | Sequence[str] | None) -> list[str]:
    """Return the columns of a schema entry, which is one name, a list of names or nothing."""
    return [] if columns is None else [columns] if isinstance(columns, str) else list(columns)
