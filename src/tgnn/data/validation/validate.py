"""The public entry point of validation: :func:`tgnn.data.validate`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tgnn.data.on_disk.integrity import check_disk
from tgnn.data.readers.detect import detect_format, read_path
from tgnn.data.validation.report import DataError, ValidationReport


def validate(path: str | os.PathLike[str], *, encoding: Mapping[str, Any] | None = None) -> ValidationReport:
    r"""Validate your own data and report its contents and every problem in it.

    Each finding names the file, the rows and the values concerned. Errors in the data are part of the report and are
    not raised. ``tgnn data check PATH`` prints the same report.

    Args:
        path: A folder of tables, a ``.npz`` file, a graph on disk, a folder of TU files or a CSV file of SMILES, as
            :func:`tgnn.data.load` accepts them.
        encoding: Encoding of the data that a model was trained on (``data.encoding``). Features and classes are then
            checked against it. Default: the encoding is inferred from the data.

    Returns:
        The report. ``report.ok`` is ``False`` if the data cannot be used, ``report.findings`` lists the problems, and
        ``print(report)`` shows all of it.

    Raises:
        FileNotFoundError: If there is no such file or folder.
        ValueError: If the format is not supported.

    Example:
        >>> folder = getfixture("tmp_path")
        >>> _ = (folder / "edges.csv").write_text("source,target,weight\na,b,0.5\nb,c,7\n")
        >>> report = validate(folder)
        >>> report.ok
        False
        >>> [(finding.level, finding.file, finding.locations) for finding in report.findings if finding.locations]
        [('error', 'edges.csv', (3,))]
    """
    path = Path(path)
    try:
        if detect_format(path) == "graph on disk":
            return check_disk(path)
        return read_path(path, encoding=encoding)[1]
    except DataError as error:
        return error.report
