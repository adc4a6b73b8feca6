"""Find runs, results and studies in files and folders."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tgnn.report.runs import FILES
from tgnn.training.run_folder import CONFIG, HISTORY, METRICS, RUNS, RunFolder
from tgnn.tuning.results import RECIPE_FILE, STUDY_FILE

_RUN_FILES = {CONFIG, METRICS, HISTORY}
_HEAD = 4096


class NoRunsFoundError(ValueError):
    """Raised if there are no runs, results or studies in the given paths."""


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
    def files(self) -> list[Path]:
        """Files that are read."""
        if self.source_type == "result":
            return [self.path]
        if self.source_type == "study":
            return [self.path, self.path.with_name(RECIPE_FILE)]
        return [self.path / name for name in (FILES if self.source_type == "run" else (RUNS,))]

    @property
    def stamp(self) -> tuple[object, ...]:
        """Value that changes whenever one of the files changes."""
        stamp: list[object] = [str(self.path), self.name]
        for path in self.files:
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
        in_path: Iterable[ReportSource] = (
            [ReportSource(_file_type(path), path, path.name)] if path.is_file() else _walk(path)
        )
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
        if _RUN_FILES & set(files):
            yield ReportSource("run", here, name)
        for file in sorted(files):
            if not file.endswith(".json") or file.startswith(".") or file in FILES:
                continue
            if file == STUDY_FILE or _is_result(here / file):
                yield ReportSource(_file_type(here / file), here / file, str(Path(name) / file))


def _file_type(path: Path) -> str:
    return "study" if path.name == STUDY_FILE else "result"


def _is_result(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return b'"tgnn_result"' in file.read(_HEAD)
    except OSError:
        return False
