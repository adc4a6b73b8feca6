"""Assignment of roles (id, label, split, source, target, weight, feature) to the columns of a table."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from tgnn.data.tables.header import INDEX
from tgnn.data.tables.schema import ColumnType, EdgeColumns, GraphColumns, NodeColumns, suggestion
from tgnn.data.tables.table_file import TableFile
from tgnn.data.validation.report import Locations, ValidationReport, quoted

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

    by_role: Mapping[str, str]
    labels: list[str] = field(default_factory=list)
    features: Mapping[str, ColumnType | None] = field(default_factory=dict)
    guessed: list[str] = field(default_factory=list)

    def text(self) -> set[str]:
        """Return the columns that are read as strings. ``007`` is an id, and ``1`` may be the name of a class."""
        strings = {name for name, type_ in self.features.items() if type_ in ("categorical", "tokens", "ignore")}
        return strings | set(self.labels) | {name for role, name in self.by_role.items() if role != "weight"}

    def to_schema(self) -> dict[str, str | list[str]]:
        """Return the schema section that assigns the same roles."""
        return {**self.by_role, **({"label": self.labels} if self.labels else {})}


def find_roles(
    source: TableFile,
    part: str,
    given: NodeColumns | EdgeColumns | GraphColumns,
    report: ValidationReport,
    labels: bool = False,
    guess: bool = True,
) -> ColumnRoles:
    """Assign a role to every column: by the schema, else by name, else by position.

    Args:
        source: The table.
        part: ``"nodes"``, ``"edges"`` or ``"graphs"``; ``"nodes of graphs"`` or ``"edges of graphs"`` for a data set of
            many graphs.
        given: The section of the schema for this table.
        report: Collects errors and notes.
        labels: Whether the table may have label columns.
        guess: Whether to use names and positions of columns for roles that the schema does not set.
    """
    assignment = _RoleAssignment(source, part, given, report)
    assignment.check_possible_roles({*_NAMES[part], "features", *(("label",) if labels else ())})
    for role in _NAMES[part]:
        if (column := getattr(given, role)) is not None:
            assignment.assign(column, role)
    label_columns = getattr(given, "label", None) or []
    label_columns = [label_columns] if isinstance(label_columns, str) else list(label_columns)
    for column in label_columns:
        assignment.assign(column, "label")
    if not guess:
        if not {role for role in _ROLES_BY_POSITION if role in _NAMES[part]} <= set(assignment.by_role):
            assignment.fail(f"the training data had no table of {assignment.part}; remove this file")
        return ColumnRoles(assignment.by_role, label_columns, assignment.remaining())
    if labels and not label_columns:
        label_columns = assignment.guess_label()
    for role, names in _NAMES[part].items():
        column = next((free for name in names if (free := assignment.free_column(name))), None)
        if getattr(given, role) is None and column is not None:
            assignment.assign(column, role)
    if part == "nodes of graphs" and "graph" not in assignment.by_role:
        assignment.fail(f"there is no column 'graph' with the graph id of each node, only {quoted(source.columns)}")
    by_position = [role for role in _ROLES_BY_POSITION if role in _NAMES[part] and role not in assignment.by_role]
    for role in by_position:
        assignment.assign_first_free(role)
    guessed = [assignment.by_role[role] for role in by_position if role in assignment.by_role]
    return ColumnRoles(assignment.by_role, label_columns, assignment.remaining(), guessed)


class _RoleAssignment:
    """Columns of one table that get at most one role each."""

    def __init__(
        self, source: TableFile, part: str, given: NodeColumns | EdgeColumns | GraphColumns, report: ValidationReport
    ) -> None:
        self.columns, self.here, self.report, self.given = source.columns, Locations(source.name), report, given
        self.part = part.split()[0]
        self.types: Mapping[str, ColumnType] = getattr(given, "features", {})
        self.by_role: dict[str, str] = {}
        self.used: dict[str, str] = {}
        for column in self.types:
            self._check_exists(column, "features")

    def check_possible_roles(self, possible: Collection[str]) -> None:
        """Report roles of the schema that this table cannot have, which would have no effect."""
        for role, column in self.given:
            if column is None or role in possible:
                continue
            reason = "is only for data sets of many graphs, but there is no graph table (graphs.csv)"
            if role != "graph":
                reason = f"is only for a single graph; for a data set of many graphs set graphs.{role}"
            self.fail(f"{self.part}.{role} ({quoted([column])}) {reason}")

    def assign(self, column: str, role: str) -> None:
        if column in self.used:
            self.fail(f"column {column!r} has two roles, {self.used[column]} and {role}")
        self._check_exists(column, role)
        self.used[column] = role
        if role != "label":
            self.by_role[role] = column

    def free_column(self, name: str) -> str | None:
        """Return the column of that name, ignoring case, if it has no role yet."""
        return next((column for column in self._free() if column.lower() == name), None)

    def guess_label(self) -> list[str]:
        candidates = [column for name in _LABEL_NAMES for column in self._free() if column.lower() == name]
        if len(candidates) > 1:
            self.fail(
                f"columns {quoted(candidates)} could each be the label; choose one in schema.yaml ({self.part}: label: "
                f"{candidates[0]}) and set the type of the other ({self.part}: features: {candidates[1]}: ignore)"
            )
        for column in candidates:
            self.assign(column, "label")
        return candidates

    def assign_first_free(self, role: str) -> None:
        free = self._free()
        if not free:
            self.fail(f"there is no column for the {role}, only {quoted(self.columns)}")
            return
        if free[0] != INDEX:
            text = f"no column is named {role!r}; column {free[0]!r} is used as {role}"
            self.report.add(self.here.finding("note", "guessed-column", text))
        self.assign(free[0], role)

    def remaining(self) -> dict[str, ColumnType | None]:
        """Return the columns without a role: the features."""
        rest: dict[str, ColumnType | None] = {c: self.types.get(c) for c in self.columns if c not in self.used}
        if INDEX in rest:
            del rest[INDEX]
            text = "the first column has no name; it is ignored because it looks like an index written by pandas"
            self.report.add(self.here.finding("note", "ignored-column", text))
        return rest

    def fail(self, text: str) -> None:
        self.report.add(self.here.finding("error", "columns", text))

    def _free(self) -> list[str]:
        return [column for column in self.columns if column not in self.used and column not in self.types]

    def _check_exists(self, column: str, role: str) -> None:
        if column not in self.columns:
            self.fail(f"there is no column {column!r} for {self.part}.{role}; {suggestion(column, self.columns)}")
