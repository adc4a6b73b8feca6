"""Where runs, results and studies lie."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tgnn.report.runs import FILES
from tgnn.training.history import NAME as HISTORY
from tgnn.training.repeated_runs import PLAN
from tgnn.training.train import CONFIG, METRICS, is_running
from tgnn.tuning.results import RECIPE_FILE, STUDY_FILE

_MARKS = {CONFIG, METRICS, HISTORY}
_HEAD = 4096


class NoRunsFoundError(ValueError):
    """No runs and no results; the text says where was looked."""


@dataclass(frozen=True)
class Place:
    """Something to read.

    Args:
        kind: ``"run"``, ``"several"``, ``"result"`` or ``"study"``.
        path: Where it is.
        name: What the page calls it.
    """

    kind: str
    path: Path
    name: str

    @property
    def files(self) -> list[Path]:
        """What it is read from."""
        if self.kind == "result":
            return [self.path]
        if self.kind == "study":
            return [self.path, self.path.with_name(RECIPE_FILE)]
        return [self.path / name for name in (FILES if self.kind == "run" else (PLAN,))]

    @property
    def stamp(self) -> tuple[object, ...]:
        """Changes when what it holds does."""
        found: list[object] = [str(self.path), self.name]
        for path in self.files:
            try:
                about = path.stat()
                found.append((about.st_mtime_ns, about.st_size, about.st_ino))
            except OSError:
                found.append(None)
        if self.kind == "run" and not (self.path / METRICS).exists():
            found.append(is_running(self.path))
        return tuple(found)


def find(paths: Sequence[Path]) -> list[Place]:
    """All runs, folders of several runs, results and studies in some files and folders, at any depth, each once."""
    places: dict[tuple[str, Path], Place] = {}
    for path in paths:
        if not path.exists():
            raise NoRunsFoundError(f"there is no {path}; give folders of `tgnn train`, `tgnn reproduce` or `tgnn tune`")
        found: Iterable[Place] = [Place(_kind(path), path, path.name)] if path.is_file() else _walk(path)
        for place in found:
            places.setdefault((place.kind, place.path.resolve()), place)
    if not places:
        where = ", ".join(str(path) for path in paths)
        raise NoRunsFoundError(
            f"there are no runs and no results in {where}; make some: tgnn train digits --out runs/digits"
        )
    return list(places.values())


def _walk(top: Path) -> Iterator[Place]:
    base = top.resolve().name
    for folder, folders, files in os.walk(top):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")))
        here = Path(folder)
        name = str(Path(base) / here.relative_to(top))
        if PLAN in files:
            yield Place("several", here, name)
        if _MARKS & set(files):
            yield Place("run", here, name)
        for file in sorted(files):
            if not file.endswith(".json") or file.startswith(".") or file in FILES:
                continue
            if file == STUDY_FILE or _is_result(here / file):
                yield Place(_kind(here / file), here / file, str(Path(name) / file))


def _kind(path: Path) -> str:
    return "study" if path.name == STUDY_FILE else "result"


def _is_result(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return b'"tgnn_result"' in file.read(_HEAD)
    except OSError:
        return False
