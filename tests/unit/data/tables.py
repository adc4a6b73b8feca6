"""Small tables for the tests, and a look into their reports."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
from torch_geometric.data import Data

from tgnn.data import GraphDataset, validate
from tgnn.data.readers.detect import read_path
from tgnn.data.validation.checks import check_data
from tgnn.data.validation.report import Finding, ValidationReport

NODES = "id,age,town,label,split\nann,31,Rome,red,train\nbob,27.5,Oslo,blue,val\ncarol,45,Rome,red,test\ndan,8,,,\n"
EDGES = "source,target\nann,bob\nbob,carol\n"


def write(folder: Path, **files: str | bytes | Mapping[str, Any] | None) -> Path:
    """Write files by their names, with ``_`` for the dot.

    Nodes and edges that are not given have defaults. ``None`` removes a file. A mapping is a schema or the columns of
    a Parquet file. Numbers are neither standardized nor filled, unless the schema says so, so that tests can compare
    them with the file.
    """
    if isinstance(schema := files.get("schema_yaml", {}), Mapping):
        files = files | {"schema_yaml": {"standardize": "large", "fill": None, **schema}}
    stems = {name.split("_")[0] for name in files}
    defaults = {"nodes_csv": NODES, "edges_csv": EDGES}
    for name, content in ({k: v for k, v in defaults.items() if k.split("_")[0] not in stems} | files).items():
        path = folder / name.replace("_", ".")
        path.unlink(missing_ok=True)
        if name.endswith("_parquet") and not isinstance(content, bytes):
            pl.DataFrame(content).write_parquet(path)
        elif content is not None:
            text = content if isinstance(content, (str, bytes)) else json.dumps(content)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def codes(report: ValidationReport, *levels: str) -> list[str]:
    return [f.code for f in report.findings if f.level in (levels or ("error", "warning"))]


def finding(report: ValidationReport, code: str) -> str:
    (found,) = [f for f in report.findings if f.code == code]
    return str(found)


def errors(folder: Path, encoding: Mapping[str, Any] | None = None) -> ValidationReport:
    report = validate(folder, encoding=encoding)
    assert not report.ok
    return report


def nodes_of(folder: Path, nodes: str | Mapping[str, Any], /, **schema: object) -> tuple[Any, ValidationReport]:
    """Read nodes of which ``a`` and ``b`` are linked."""
    name = "nodes_csv" if isinstance(nodes, str) else "nodes_parquet"
    return read_path(write(folder, **{name: nodes, "edges_csv": "source,target\na,b\n", "schema_yaml": schema}))


def findings(data: Data | GraphDataset) -> list[Finding]:
    """Check data in memory."""
    report = ValidationReport("", "")
    check_data(data, report)
    return report.findings
