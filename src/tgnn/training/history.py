"""``history.jsonl``: one line an epoch, written as it goes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import IO, Any

from tgnn.utils.io import without_nan

NAME = "history.jsonl"


class History:
    """Appends lines to a run's history.

    Args:
        folder: Of the run; ``None``: nothing is written.
        epochs: How many lines to keep of what is there: those after are of epochs that will be trained again.
    """

    def __init__(self, folder: Path | None, epochs: int = 0) -> None:
        self._file: IO[str] | None = None
        if folder is None:
            return
        path = folder / NAME
        kept = read_history(folder)[:epochs] if epochs else []
        part = path.with_name(f".{NAME}.part")
        part.write_text("".join(json.dumps(without_nan(line)) + "\n" for line in kept), encoding="utf-8")
        os.replace(part, path)
        self._file = path.open("a", encoding="utf-8", buffering=1)  # a line is written when it is whole

    def write(self, line: dict[str, Any]) -> None:
        """One epoch."""
        if self._file is not None:
            self._file.write(json.dumps(without_nan(line)) + "\n")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def read_history(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run; a last one that was cut off is left out."""
    path = folder / NAME
    if not path.exists():
        return []
    lines = []
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            break
    return lines
