"""Collect the contents of the report page. Files that have not changed are not read again."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tgnn.report.charts import MAX_POINTS
from tgnn.report.result_section import read_result_section
from tgnn.report.runs import FILES, Run, read_mapping, read_run, repeated_runs_table, runs_table
from tgnn.report.sections import ReportSection
from tgnn.report.study_section import read_study_section
from tgnn.report.variants import all_variants, summary_section
from tgnn.training.run_folder import CONFIG, HISTORY, METRICS, RUNS, RunFolder
from tgnn.tuning.results import RECIPE_FILE, STUDY_FILE


class NoRunsFoundError(ValueError):
    """Raised if there are no runs, results or studies in the given paths."""


# ---- search ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReportSource:
    """Run, result or study to show on the page.

    Args:
        source_type: ``"run"``, ``"repeated runs"``, ``"result"`` or ``"study"``.
        path: File or folder.
        name: Name on the page.
    """

    source_type: str
    path: Path
    name: str

    @property
    def key(self) -> str:
        """HTML id, which stays the same when other sources are added."""
        return f"{self.source_type}-{hashlib.sha256(str(self.path.resolve()).encode()).hexdigest()[:12]}"

    @property
    def stamp(self) -> tuple[object, ...]:
        """Value that changes whenever one of the files changes."""
        folder_files = {"run": FILES, "repeated runs": (RUNS,)}.get(self.source_type)
        if folder_files is not None:
            files = [self.path / name for name in folder_files]
        else:
            files = [self.path, self.path.with_name(RECIPE_FILE)]
        stamp: list[object] = [self.source_type, str(self.path), self.name]
        for path in files:
            try:
                status = path.stat()
                stamp.append((status.st_mtime_ns, status.st_size, status.st_ino))
            except OSError:
                stamp.append(None)
        if self.source_type == "run" and not RunFolder(self.path).is_finished:
            stamp.append(RunFolder(self.path).is_running)
        return tuple(stamp)


def find_sources(paths: Sequence[Path]) -> list[ReportSource]:
    """Find all runs, folders of repeated runs, results and studies at any depth, each once."""
    sources: dict[tuple[str, Path], ReportSource] = {}
    for path in paths:
        if not path.exists():
            raise NoRunsFoundError(
                f"{path} does not exist; give folders of `tgnn train`, `tgnn reproduce` or `tgnn tune`"
            )
        in_path: Iterable[ReportSource] = [_file_source(path, path.name)] if path.is_file() else _walk(path)
        for source in in_path:
            sources.setdefault((source.source_type, source.path.resolve()), source)
    if not sources:
        searched = ", ".join(str(path) for path in paths)
        raise NoRunsFoundError(
            f"no runs or results were found in {searched}; create a run with: tgnn train digits --out runs/digits"
        )
    return list(sources.values())


def _walk(top: Path) -> Iterator[ReportSource]:
    base = top.resolve().name
    for folder, folders, files in os.walk(top):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")))
        here = Path(folder)
        name = str(Path(base) / here.relative_to(top))
        if RUNS in files:
            yield ReportSource("repeated runs", here, name)
        if {CONFIG, METRICS, HISTORY} & set(files):
            yield ReportSource("run", here, name)
        for file in sorted(set(files) - set(FILES)):
            if file.endswith(".json") and not file.startswith(".") and (file == STUDY_FILE or _is_result(here / file)):
                yield _file_source(here / file, str(Path(name) / file))


def _file_source(path: Path, name: str) -> ReportSource:
    return ReportSource("study" if path.name == STUDY_FILE else "result", path, name)


def _is_result(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return b'"tgnn_result"' in file.read(4096)
    except OSError:
        return False


# ---- contents --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReportContents:
    """Contents of the report page.

    Args:
        sections: Sections of results and studies, then the tables of runs and the list of damaged files.
        runs: Runs with the details that their dialogs show.
        damaged: Names of files and runs that cannot be read, and the reasons.
        machines: Machines that produced the results and runs.
        counts: Number of results, studies and runs, and of runs in each state.
        stamp: Value that changes whenever the contents change.
    """

    sections: Sequence[ReportSection]
    runs: Sequence[Run]
    damaged: Sequence[tuple[str, str]]
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
        self._cache: dict[tuple[object, ...], Any] = {}

    def read(self) -> ReportContents:
        """Read the current contents."""
        sources = find_sources(self._paths)
        stamps = [source.stamp for source in sources]
        # Many runs get curves with fewer points, so that the page stays small.
        num_runs = sum(source.source_type == "run" for source in sources)
        max_points = max(60, MAX_POINTS >> (num_runs // 50).bit_length())
        previous, self._cache = self._cache, {}
        counts = {"results": 0, "studies": 0}
        sections: list[tuple[str, ReportSection]] = []
        runs: list[Run] = []
        damaged: list[tuple[str, str]] = []
        for source, stamp in zip(sources, stamps):
            key = (max_points, *stamp)
            item = self._cache[key] = previous[key] if key in previous else _read(source, max_points)
            if isinstance(item, Run):
                runs.append(item)
            elif isinstance(item, ReportSection):
                sections.append((source.name, item))
                counts["studies" if source.source_type == "study" else "results"] += 1
            elif item:
                damaged.append((source.name, item))
        damaged += [(run.name, run.reason) for run in runs if run.state == "damaged"]
        states = [run.state for run in runs]
        counts |= {"runs": len(runs), **{state: states.count(state) for state in ("running", "unfinished")}}
        repeated = [(source.name, source.path) for source in sources if source.source_type == "repeated runs"]
        own = _with_paths(sorted(sections, key=lambda section: section[1].order))
        return ReportContents(
            _ordered([*own, *_overview(runs, repeated, damaged)]),
            runs,
            damaged,
            _machines([*(section.environment for section in own), *(run.environment for run in runs)]),
            {**counts, "damaged": len(damaged)},
            hashlib.sha256(repr(stamps).encode()).hexdigest()[:16],
        )


def _read(source: ReportSource, max_points: int) -> Run | ReportSection | str:
    """Read a source. Returns the reason if it cannot be read."""
    if source.source_type == "run":
        return read_run(source.path, source.key, source.name, max_points)
    if source.source_type == "repeated runs":
        return read_mapping(source.path / RUNS)[1]
    read_section = read_study_section if source.source_type == "study" else read_result_section
    try:
        return read_section(source.path, source.key)
    except (ValueError, OSError) as error:
        return str(error).removeprefix(f"{source.path} ")


def _with_paths(sections: Sequence[tuple[str, ReportSection]]) -> list[ReportSection]:
    """Add the paths of the files to sections with the same title."""
    titles = Counter(section.title for _, section in sections)
    return [replace(section, where=path) if titles[section.title] > 1 else section for path, section in sections]


def _overview(
    runs: Sequence[Run], repeated: Sequence[tuple[str, Path]], damaged: Sequence[tuple[str, str]]
) -> list[ReportSection]:
    sections = []
    summary = summary_section(runs)
    if summary is not None:
        sections.append(summary)
    if repeated:
        sections.append(ReportSection("repeated-runs", "Repeated runs", tables=[repeated_runs_table(repeated, runs)]))
    if runs:
        lead = "Open a run to see its learning curves, configuration and hashes."
        several = summary is not None and any(len(group.runs) > 1 for group in all_variants(runs))
        collapsed = f"Show all {len(runs)} runs" if several else ""
        sections.append(ReportSection("runs", "Runs", lead, tables=[runs_table(runs)], collapsed=collapsed))
    if damaged:
        sections.append(ReportSection("damaged", "Damaged files", problems=damaged))
    return sections


def _ordered(sections: Sequence[ReportSection]) -> list[ReportSection]:
    """Put the summary of the runs first."""
    return sorted(sections, key=lambda section: section.key != "summary")


def _machines(environments: Sequence[Mapping[str, Any]]) -> list[str]:
    """Describe each machine once."""
    formats = {"system": "{}", "cores": "{} cores", "python": "python {}", "torch": "torch {}"}
    machines = [
        ", ".join(text.format(environment[key]) for key, text in formats.items() if environment.get(key))
        for environment in environments
    ]
    return list(dict.fromkeys(machine for machine in machines if machine))
