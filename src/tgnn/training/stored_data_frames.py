"""Data frames as training data: they are stored in the run folder, from which the run reads them again."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tgnn.data.tables.frames import FOLDER, are_frames, name_frames, to_tables, write_frames
from tgnn.data.validation.report import DataError
from tgnn.training.config import ConfigError
from tgnn.training.distributed.world import SINGLE_PROCESS, World
from tgnn.training.run_folder import CANDIDATES, RUNS, RunError, RunFolder


@contextlib.contextmanager
def store_frames(frames: Any, folder: Path, resume: bool = False, world: World = SINGLE_PROCESS) -> Iterator[Path]:
    """Write data frames to the folder of a new run, and remove them if the run does not start.

    Args:
        frames: Data frames, as :func:`~tgnn.data.tables.frames.to_tables` takes them. Other data is an error.
        folder: Folder of the run, or of several runs.
        resume: Whether the run is to be resumed, which is an error.
        world: The processes that train together. Rank 0 writes.

    Yields:
        The path from which the run reads its data.
    """
    if not are_frames(frames):
        raise TypeError(
            "data must be the name of a data set, a path, a data frame of molecules, a pair (nodes, edges) of data "
            f"frames, or a dictionary of the data frames nodes, edges and graphs, got {type(frames).__name__}. Graphs "
            "and arrays are for the estimators, such as tgnn.NodeClassifier and tgnn.GraphClassifier."
        )
    to_tables(frames)  # before a folder is created
    if resume:
        raise ConfigError(
            f"Data frames cannot be given to a run that is resumed. Use tgnn.load_run({str(folder)!r}).resume()."
        )
    new_folders = [path for path in (folder, *folder.parents) if not path.exists()]
    path_to_read = world.broadcast(lambda: _write(frames, folder))
    try:
        yield path_to_read
    except BaseException as error:
        if world.is_rank_zero and not _has_started(folder):
            shutil.rmtree(folder / FOLDER, ignore_errors=True)
            with contextlib.suppress(OSError):
                for path in new_folders:
                    path.rmdir()
        if isinstance(error, DataError):
            raise DataError(name_frames(error.report)) from None
        raise


def _write(frames: Any, folder: Path) -> Path:
    if RunFolder(folder).has_started or (folder / RUNS).exists():
        raise RunError(f"{folder} already holds a run. Choose another folder.")
    target = (folder / FOLDER).resolve()
    target.mkdir(parents=True, exist_ok=True)
    for old in target.glob("*.parquet"):  # of a comparison of models that was interrupted
        old.unlink()
    return write_frames(frames, target)


def _has_started(folder: Path) -> bool:
    return RunFolder(folder).has_started or any((folder / name).exists() for name in (RUNS, CANDIDATES))
