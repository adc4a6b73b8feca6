"""Collect the contents of the report page. Files that have not changed are not read again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tgnn.report.discover import ReportSource, find_sources
from tgnn.report.line_chart import POINTS
from tgnn.report.result_reader import read_valid_result
from tgnn.report.result_section import ReportSection, make_section
from tgnn.report.run_details import RunDetails, make_details
from tgnn.report.run_tables import repeated_runs_table, runs_in_folder, runs_table
from tgnn.report.runs import DamagedRunError, Run, read_mapping, read_run
from tgnn.report.study_section import make_study, read_study
from tgnn.report.tables import ReportTable
from tgnn.training.run_folder import RUNS

_MAX_FULL_CURVES = 50
"""Number of runs above which curves get fewer points, so that the page stays small."""


@dataclass(frozen=True)
class ReportContents:
    """Contents of the report page.

    Args:
        sections: Sections of the results, then of the studies.
        damaged: Names of files that cannot be read, and the reasons.
        repeated_runs: Table of the folders with repeated runs, if there are any.
        runs: Table of all runs, if there are any.
        details: Details of each run, in the order of the table.
        machines: Machines that produced the results and runs.
        counts: Number of results, studies and runs, and of runs in each state.
        stamp: Value that changes whenever the contents change.
    """

    sections: Sequence[ReportSection]
    damaged: Sequence[tuple[str, str]]
    repeated_runs: ReportTable | None
    runs: ReportTable | None
    details: Sequence[RunDetails]
    machines: Sequence[str]
    counts: Mapping[str, int]
    stamp: str


class ReportReader:
    """Reader of the contents of the page, with a cache.

    Args:
        paths: Files and folders to show.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._known: dict[tuple[object, ...], Any] = {}
        self._fresh: dict[tuple[object, ...], Any] = {}

    def read(self) -> ReportContents:
        """Read the current contents."""
        sources = find_sources(self._paths)
        stamps = [source.stamp for source in sources]
        self._fresh = {}
        runs = [
            (source, self._once(("run", *stamp), read_run, source.path, source.name))
            for source, stamp in zip(sources, stamps)
            if source.source_type == "run"
        ]
        points = max(60, POINTS * _MAX_FULL_CURVES // max(len(runs), _MAX_FULL_CURVES))
        details = [
            self._once(("details", points, n, run.state, *source.stamp), make_details, run, n, points)
            for n, (source, run) in enumerate(runs)
        ]
        results, damaged = self._sections("result", _read_result, sources, stamps)
        studies, wrong = self._sections("study", _read_study, sources, stamps)
        sections = [*results, *studies]
        damaged += wrong
        repeated = [source for source in sources if source.source_type == "repeated runs"]
        groups = [_group(source, [(other.path, run) for other, run in runs]) for source in repeated]
        damaged += [(name, reason) for name, _, reason, _ in groups if reason]
        self._known = self._fresh  # drops cached values that are no longer used
        all_runs = [run for _, run in runs]
        return ReportContents(
            sections,
            damaged,
            repeated_runs_table(groups) if groups else None,
            runs_table(all_runs) if all_runs else None,
            details,
            _machines([*(s.environment for s in sections), *(run.environment for run in all_runs)]),
            _counts(results, studies, all_runs, damaged),
            hashlib.sha256(repr(stamps).encode()).hexdigest()[:16],
        )

    def _sections(
        self,
        source_type: str,
        read: Callable[[Path, int], ReportSection],
        sources: Sequence[ReportSource],
        stamps: Sequence[tuple[object, ...]],
    ) -> tuple[list[ReportSection], list[tuple[str, str]]]:
        sections: list[ReportSection] = []
        damaged: list[tuple[str, str]] = []
        names: list[str] = []
        for source, stamp in zip(sources, stamps):
            if source.source_type == source_type:
                key = (source_type, len(sections), *stamp)
                section = self._once(key, _section_or_reason, read, source.path, len(sections))
                if isinstance(section, ReportSection):
                    sections.append(section)
                    names.append(source.name)
                else:
                    damaged.append((source.name, section))
        titles = [section.title for section in sections]
        named = [replace(s, where=name) if titles.count(s.title) > 1 else s for s, name in zip(sections, names)]
        return sorted(named, key=lambda section: section.order), damaged

    def _once(self, key: tuple[object, ...], make: Callable[..., Any], *values: Any) -> Any:
        self._fresh[key] = self._known[key] if key in self._known else make(*values)
        return self._fresh[key]


def _read_result(path: Path, number: int) -> ReportSection:
    return make_section(read_valid_result(path), number)


def _read_study(path: Path, number: int) -> ReportSection:
    return make_study(*read_study(path), number)


def _section_or_reason(read: Callable[[Path, int], ReportSection], path: Path, number: int) -> ReportSection | str:
    """Build a section, or return the reason why its file cannot be read."""
    try:
        return read(path, number)
    except (ValueError, OSError) as error:
        return str(error).removeprefix(f"{path} ")


def _group(source: ReportSource, runs: Sequence[tuple[Path, Run]]) -> tuple[str, int | None, str, Sequence[Run]]:
    inside = runs_in_folder(runs, source.path)
    try:
        planned = read_mapping(source.path / RUNS).get("runs")
    except DamagedRunError as error:
        return source.name, None, str(error), inside
    return source.name, planned if isinstance(planned, int) else None, "", inside


def _machines(environments: Sequence[Mapping[str, Any]]) -> list[str]:
    """Describe each machine once."""
    machines: dict[str, None] = {}
    for environment in environments:
        parts = [str(environment["system"])] if environment.get("system") else []
        parts += [f"{environment['cores']} cores"] if environment.get("cores") else []
        parts += [f"{name} {environment[name]}" for name in ("python", "torch") if environment.get(name)]
        if parts:
            machines.setdefault(", ".join(parts))
    return list(machines)


def _counts(
    results: Sequence[ReportSection], studies: Sequence[ReportSection], runs: Sequence[Run], damaged: Sequence[Any]
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
