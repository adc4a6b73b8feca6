"""Assignment of roles (id, label, split, source, target, weight, feature) to the columns of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    """Roles of the columns of one table.

    Args:
        by_role: Column name of each role: ``id``, ``graph``, ``split``, ``source``, ``target``, ``weight``.
        labels: Columns to predict.
        features: All other columns, with their type if the schema sets it.
        guessed: Columns that have their role only because of their position.
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
) -> ColumnRoles:
    """Assign a role to every column: by the schema, else by name, else by position.

    Args:
        file: The table file, to report errors and notes.
        columns: Names of its columns.
        part: ``"nodes"``, ``"edges"`` or ``"graphs"``; ``"nodes of graphs"`` or ``"edges of graphs"`` for a data set of
            many graphs.
        given: The section of the schema for this table.
        labels: Whether the table may have label columns.
        guess: Whether to use names and positions of columns for roles that the schema does not set.
    """
    return _RoleAssignment(file, columns, part, given).run(labels, guess)


class _RoleAssignment:
    """Columns of one table that get at most one role each."""

    def __init__(
        self, file: Reporter, columns: Sequence[str], part: str, given: NodeColumns | EdgeColumns | GraphColumns
    ) -> None:
        self.file, self.given = file, given
        self.columns = dict.fromkeys(columns)
        self.part, self.names = part.split()[0], _NAMES[part]
        self.types: Mapping[str, ColumnType] = getattr(given, "features", {})
        self.by_role: dict[str, str] = {}
        self.used: dict[str, str] = {}

    def run(self, labels: bool, guess: bool) -> ColumnRoles:
        for column in self.types:
            self._check_exists(column, "features")
        self._check_possible_roles(labels)
        for role in self.names:
            if (column := getattr(self.given, role)) is not None:
                self._assign(column, role)
        label_columns = as_list(getattr(self.given, "label", None))
        for column in label_columns:
            self._assign(column, "label")
        by_position = [role for role in _ROLES_BY_POSITION if role in self.names and role not in self.by_role]
        if not guess:
            if by_position:
                self._error(f"the training data had no table of {self.part}; remove this file")
            return ColumnRoles(self.by_role, label_columns, self._features())
        if labels and not label_columns:
            label_columns = self._guess_label()
        for role, names in self.names.items():
            if getattr(self.given, role) is None and (found := self._named(names)):
                self._assign(found[0], role)
        if "graph" in self.names and self.part == "nodes" and "graph" not in self.by_role:
            self._error(f"there is no column 'graph' with the graph id of each node, only {quoted(self.columns)}")
        guessed = [self._assign_first_free(role) for role in by_position if role not in self.by_role]
        return ColumnRoles(self.by_role, label_columns, self._features(), [name for name in guessed if name])

    def _check_possible_roles(self, labels: bool) -> None:
        """Report roles of the schema that this table cannot have, which would have no effect."""
        for role, column in self.given:
            if column is None or role in self.names or role == "features" or (role == "label" and labels):
                continue
            reason = "is only for data sets of many graphs, but there is no graph table (graphs.csv)"
            if role != "graph":
                reason = f"is only for a single graph; for a data set of many graphs set graphs.{role}"
            self._error(f"{self.part}.{role} ({quoted([column])}) {reason}")

    def _assign(self, column: str, role: str) -> None:
        if column in self.used:
            self._error(f"column {column!r} has two roles, {self.used[column]} and {role}")
        self._check_exists(column, role)
        self.used[column] = role
        if role != "label":
            self.by_role[role] = column

    def _guess_label(self) -> list[str]:
        candidates = self._named(_LABEL_NAMES)
        if len(candidates) > 1:
            self._error(
                f"columns {quoted(candidates)} could each be the label; choose one in schema.yaml ({self.part}: label: "
                f"{candidates[0]}) and set the type of the other ({self.part}: features: {candidates[1]}: ignore)"
            )
        for column in candidates:
            self._assign(column, "label")
        return candidates

    def _assign_first_free(self, role: str) -> str | None:
        free = self._free()
        if not free:
            self._error(f"there is no column for the {role}, only {quoted(self.columns)}")
            return None
        if free[0] != INDEX:
            self.file.note("guessed-column", f"no column is named {role!r}; column {free[0]!r} is used as {role}")
        self._assign(free[0], role)
        return free[0]

    def _features(self) -> dict[str, ColumnType | None]:
        """Return the columns without a role."""
        rest: dict[str, ColumnType | None] = {c: self.types.get(c) for c in self.columns if c not in self.used}
        if INDEX in rest:
            del rest[INDEX]
            text = "the first column has no name; it is ignored because it looks like an index written by pandas"
            self.file.note("ignored-column", text)
        return rest

    def _named(self, names: Sequence[str]) -> list[str]:
        """Return the free columns that have one of the names, ignoring case, in the order of the names."""
        return [column for name in names for column in self._free() if column.lower() == name]

    def _free(self) -> list[str]:
        return [column for column in self.columns if column not in self.used and column not in self.types]

    def _check_exists(self, column: str, role: str) -> None:
        if column not in self.columns:
            self._error(f"there is no column {column!r} for {self.part}.{role}; {suggestion(column, self.columns)}")

    def _error(self, text: str) -> None:
        self.file.error("columns", text)


def as_list(columns: str | Sequence[str] | None) -> list[str]:
    """Return the columns of a schema entry, which is one name, a list of names or nothing."""
    return [] if columns is None else [columns] if isinstance(columns, str) else list(columns)
