"""Small tables for the tests, and a look into their reports."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch_geometric.data import Data

from tgnn.data.tables.read_folder import read_table
from tgnn.data.validation.report import DataError, ValidationReport

NODES = "id,age,town,label,split\nann,31,Rome,red,train\nbob,27.5,Oslo,blue,val\ncarol,45,Rome,red,test\ndan,8,,,\n"
EDGES = "source,target\nann,bob\nbob,carol\n"


def write(folder: Path, **files: str | bytes | None) -> Path:
    """Files by their names, with ``_`` for the dot; some nodes and edges if not given, none for ``None``."""
    stems = {name.split("_")[0] for name in files}
    defaults = {"nodes_csv": NODES, "edges_csv": EDGES}
    for name, content in ({k: v for k, v in defaults.items() if k.split("_")[0] not in stems} | files).items():
        path = folder / name.replace("_", ".")
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def codes(report: ValidationReport, *levels: str) -> list[str]:
    return [f.code for f in report.findings if f.level in (levels or ("error", "warning"))]


def finding(report: ValidationReport, code: str) -> str:
    (found,) = [f for f in report.findings if f.code == code]
    return str(found)


def errors(folder: Path, **options: object) -> ValidationReport:
    with pytest.raises(DataError) as caught:
        read_table(folder, **options)
    return caught.value.report


def nodes_of(tmp_path: Path, nodes: str, /, **schema: object) -> tuple[Data, ValidationReport]:
    return read_table(write(tmp_path, nodes_csv=nodes, edges_csv="source,target\na,b\n"), schema=schema)
