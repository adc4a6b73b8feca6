"""Everything that the page shows, read from files; what did not change is not read again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tgnn.report.details import Details, make_details
from tgnn.report.discover import Place, find
from tgnn.report.lines import POINTS
from tgnn.report.lists import runs_table, several_table, within
from tgnn.report.results import read_checked
from tgnn.report.runs import DamagedRunError, Run, read_mapping, read_run
from tgnn.report.section import Section, make_section
from tgnn.report.study import make_study, read_study
from tgnn.report.tables import Table
from tgnn.training.repeated_runs import PLAN

_MANY = 50
"""Runs above which curves get fewer points, so that the page stays small."""


@dataclass(frozen=True)
class Contents:
    """What the page shows.

    Args:
        sections: Of the results, then of the studies.
        damaged: Names of files that cannot be read, and why.
        several: Folders of several runs, if there are any.
        runs: All runs, if there are any.
        details: Of each run, in the same order.
        machines: On which all that was made.
        counts: How many of what.
        stamp: Changes when anything does.
    """

    sections: Sequence[Section]
    damaged: Sequence[tuple[str, str]]
    several: Table | None
    runs: Table | None
    details: Sequence[Details]
    machines: Sequence[str]
    counts: Mapping[str, int]
    stamp: str


class Reader:
    """Reads, and remembers what it has read.

    Args:
        paths: Files and folders.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._known: dict[tuple[object, ...], Any] = {}
        self._fresh: dict[tuple[object, ...], Any] = {}

    def read(self) -> Contents:
        """All that is there now."""
        places = find(self._paths)
        stamps = [place.stamp for place in places]
        self._fresh = {}
        runs = [
            (place, self._once(("run", *stamp), read_run, place.path, place.name))
            for place, stamp in zip(places, stamps)
            if place.kind == "run"
        ]
        points = max(60, POINTS * _MANY // max(len(runs), _MANY))
        details = [
            self._once(("details", points, n, run.state, *place.stamp), make_details, run, n, points)
            for n, (place, run) in enumerate(runs)
        ]
        results, damaged = self._sections("result", _read_result, places, stamps)
        studies, wrong = self._sections("study", _read_study, places, stamps)
        sections = [*results, *studies]
        damaged += wrong
        several = [place for place in places if place.kind == "several"]
        groups = [_group(place, [(other.path, run) for other, run in runs]) for place in several]
        damaged += [(name, reason) for name, _, reason, _ in groups if reason]
        self._known = self._fresh  # what was not asked for is gone
        found = [run for _, run in runs]
        return Contents(
            sections,
            damaged,
            several_table(groups) if groups else None,
            runs_table(found) if found else None,
            details,
            _machines([*(s.environment for s in sections), *(run.environment for run in found)]),
            _counts(results, studies, found, damaged),
            hashlib.sha256(repr(stamps).encode()).hexdigest()[:16],
        )

    def _sections(
        self,
        kind: str,
        read: Callable[[Path, int], Section],
        places: Sequence[Place],
        stamps: Sequence[tuple[object, ...]],
    ) -> tuple[list[Section], list[tuple[str, str]]]:
        sections: list[Section] = []
        damaged: list[tuple[str, str]] = []
        names: list[str] = []
        for place, stamp in zip(places, stamps):
            if place.kind == kind:
                found = self._once((kind, len(sections), *stamp), _section_or_why, read, place.path, len(sections))
                if isinstance(found, Section):
                    sections.append(found)
                    names.append(place.name)
                else:
                    damaged.append((place.name, found))
        titles = [section.title for section in sections]
        told = [replace(s, where=name) if titles.count(s.title) > 1 else s for s, name in zip(sections, names)]
        return sorted(told, key=lambda section: section.order), damaged

    def _once(self, key: tuple[object, ...], make: Callable[..., Any], *values: Any) -> Any:
        self._fresh[key] = self._known[key] if key in self._known else make(*values)
        return self._fresh[key]


def _read_result(path: Path, number: int) -> Section:
    return make_section(read_checked(path), number)


def _read_study(path: Path, number: int) -> Section:
    return make_study(*read_study(path), number)


def _section_or_why(read: Callable[[Path, int], Section], path: Path, number: int) -> Section | str:
    """A part of the page, or why there is none."""
    try:
        return read(path, number)
    except (ValueError, OSError) as error:
        return str(error).removeprefix(f"{path} ")


def _group(place: Place, runs: Sequence[tuple[Path, Run]]) -> tuple[str, int | None, str, Sequence[Run]]:
    found = within(runs, place.path)
    try:
        planned = read_mapping(place.path / PLAN).get("runs")
    except DamagedRunError as error:
        return place.name, None, str(error), found
    return place.name, planned if isinstance(planned, int) else None, "", found


def _machines(environments: Sequence[Mapping[str, Any]]) -> list[str]:
    """Each machine once."""
    found: dict[str, None] = {}
    for about in environments:
        words = [str(about["system"])] if about.get("system") else []
        words += [f"{about['cores']} cores"] if about.get("cores") else []
        words += [f"{name} {about[name]}" for name in ("python", "torch") if about.get(name)]
        if words:
            found.setdefault(", ".join(words))
    return list(found)


def _counts(
    results: Sequence[Section], studies: Sequence[Section], runs: Sequence[Run], damaged: Sequence[Any]
) -> dict[str, int]:
    states = [run.state for run in runs]
    return {
        "results": len(results),
        "studies": len(studies),
        "runs": len(runs),
        "running": states.count("running"),
        "unfinished": states.count("unfinished"),
        "damaged": states.count("damaged") + len(damaged),
    }
