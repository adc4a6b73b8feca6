"""Which column is what: as the schema says, else by its name, else by its place."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from tgnn.data.tables.header import INDEX
from tgnn.data.tables.schema import EdgeColumns, GraphColumns, Kind, NodeColumns, suggestion
from tgnn.data.tables.table_file import TableFile
from tgnn.data.validation.report import Places, Report, named

_NAMES = {
    "nodes": {"id": ("id", "node", "node_id"), "split": ("split",)},
    "nodes of graphs": {"id": ("id", "node", "node_id"), "graph": ("graph", "graph_id")},
    "edges": {"source": ("source", "src", "from"), "target": ("target", "dst", "to"), "weight": ("weight",)},
    "graphs": {"id": ("id", "graph", "graph_id"), "split": ("split",)},
}
_NAMES["edges of graphs"] = _NAMES["edges"] | {"graph": ("graph", "graph_id")}
_LABEL = ("label", "y", "target", "class")
_BY_PLACE = ("id", "source", "target")
"""Where no column has such a name, the first that is left is it."""


@dataclass(frozen=True)
class Roles:
    """Columns of one table.

    Args:
        of: The column of each role: ``id``, ``graph``, ``split``, ``source``, ``target``, ``weight``.
        labels: Columns to predict.
        features: All others, with their kinds where these are known.
        guessed: Columns that have their role only by their place.
    """

    of: Mapping[str, str]
    labels: list[str] = field(default_factory=list)
    features: Mapping[str, Kind | None] = field(default_factory=dict)
    guessed: list[str] = field(default_factory=list)

    def text(self) -> set[str]:
        """Columns that must not be taken for numbers: ``007`` is an id, and ``1`` a class."""
        words = {name for name, kind in self.features.items() if kind in ("categorical", "tokens", "ignore")}
        return words | set(self.labels) | {name for role, name in self.of.items() if role != "weight"}

    def named(self) -> dict[str, str | list[str]]:
        """What a schema would have to say, to find the same roles again."""
        return {**self.of, **({"label": self.labels} if self.labels else {})}


def find_roles(
    source: TableFile,
    part: str,
    given: NodeColumns | EdgeColumns | GraphColumns,
    report: Report,
    labels: bool = False,
    guess: bool = True,
) -> Roles:
    """Gives every column its role.

    Args:
        source: The table.
        part: ``"nodes"``, ``"edges"`` or ``"graphs"``, and of sets of graphs ``"nodes of graphs"``,
            ``"edges of graphs"``.
        given: What the schema says.
        report: Takes what is odd.
        labels: Whether to look for something to predict.
        guess: Whether to look at names and places at all, where the schema does not say.
    """
    choice = _Choice(source, part, given, report)
    choice.refuse({*_NAMES[part], "features", *(("label",) if labels else ())})
    for role in _NAMES[part]:
        if (column := getattr(given, role)) is not None:
            choice.use(column, role)
    found = getattr(given, "label", None) or []
    found = [found] if isinstance(found, str) else list(found)
    for column in found:
        choice.use(column, "label")
    if not guess:
        if not {role for role in _BY_PLACE if role in _NAMES[part]} <= set(choice.of):
            choice.fail(f"there was no table of {choice.part} where the columns were learned from: leave it out")
        return Roles(choice.of, found, choice.rest())
    if labels and not found:
        found = choice.guess_label()
    for role, names in _NAMES[part].items():
        column = next((free for name in names if (free := choice.free(name))), None)
        if getattr(given, role) is None and column is not None:
            choice.use(column, role)
    if part == "nodes of graphs" and "graph" not in choice.of:
        choice.fail(f"there is no column 'graph', which says in which graph a node is, only {named(source.columns)}")
    by_place = [role for role in _BY_PLACE if role in _NAMES[part] and role not in choice.of]
    for role in by_place:
        choice.use_first(role)
    guessed = [choice.of[role] for role in by_place if role in choice.of]
    return Roles(choice.of, found, choice.rest(), guessed)


class _Choice:
    """Gives columns away one after the other: none has two roles."""

    def __init__(
        self, source: TableFile, part: str, given: NodeColumns | EdgeColumns | GraphColumns, report: Report
    ) -> None:
        self.columns, self.here, self.report, self.given = source.columns, Places(source.name), report, given
        self.part = part.split()[0]
        self.kinds: Mapping[str, Kind] = getattr(given, "features", {})
        self.of: dict[str, str] = {}
        self.used: dict[str, str] = {}
        for column in self.kinds:
            self._check(column, "features")

    def refuse(self, possible: Collection[str]) -> None:
        """An error for what the schema says of roles that this table cannot have: it would silently not count."""
        for role, column in self.given:
            if column is None or role in possible:
                continue
            way_out = "is for a set of graphs, and there is no table of graphs"
            if role != "graph":
                way_out = f"is for one graph; of a set of graphs say graphs.{role}, a column of the table of graphs"
            self.fail(f"{self.part}.{role} ({named([column])}) {way_out}")

    def use(self, column: str, role: str) -> None:
        if column in self.used:
            self.fail(f"{column!r} is named for two things, {self.used[column]} and {role}")
        self._check(column, role)
        self.used[column] = role
        if role != "label":
            self.of[role] = column

    def free(self, name: str) -> str | None:
        """The column of that name, whatever its case, if it is nothing yet."""
        return next((column for column in self._left() if column.lower() == name), None)

    def guess_label(self) -> list[str]:
        found = [column for name in _LABEL for column in self._left() if column.lower() == name]
        if len(found) > 1:
            self.fail(
                f"{named(found)} could each be the label: say in schema.yaml which ({self.part}: label: {found[0]}), "
                f"and what the other is ({self.part}: features: {found[1]}: ignore)"
            )
        for column in found:
            self.use(column, "label")
        return found

    def use_first(self, role: str) -> None:
        left = self._left()
        if not left:
            self.fail(f"there is no column for the {role}, only {named(self.columns)}")
            return
        if left[0] != INDEX:
            text = f"no column is called {role!r}: {left[0]!r} is taken for it"
            self.report.add(self.here.finding("note", "guessed-column", text))
        self.use(left[0], role)

    def rest(self) -> dict[str, Kind | None]:
        """Columns without a role."""
        rest: dict[str, Kind | None] = {c: self.kinds.get(c) for c in self.columns if c not in self.used}
        if INDEX in rest:
            del rest[INDEX]
            text = "the first column has no name: taken for the index that pandas writes, and left out"
            self.report.add(self.here.finding("note", "ignored-column", text))
        return rest

    def fail(self, text: str) -> None:
        self.report.add(self.here.finding("error", "columns", text))

    def _left(self) -> list[str]:
        return [column for column in self.columns if column not in self.used and column not in self.kinds]

    def _check(self, column: str, role: str) -> None:
        if column not in self.columns:
            self.fail(f"there is no column {column!r} for {self.part}.{role}; {suggestion(column, self.columns)}")
