"""BlogCatalog out of text files and out of its .npz."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tgnn.data.build.blogcatalog import read_blogcatalog, read_blogcatalog_csv

SHARED = Path(__file__).parents[4] / "shared" / "data"
TABLES = {"nodes": "1\n2\n3\n", "groups": "1\n2\n", "edges": "1,2\n2,3\n", "group-edges": "1,2\n3,1\n3,2\n"}


def write(folder: Path, **changes: str) -> None:
    for name, text in (TABLES | {name.replace("_", "-"): text for name, text in changes.items()}).items():
        (folder / f"{name}.csv").write_text(text)


def test_both_forms_give_the_same_graph(tmp_path):
    write(tmp_path)
    np.savez(tmp_path / "b.npz", edge=[[0, 1], [1, 2]], member=[[0, 1], [2, 0], [2, 1]], num_nodes=3, num_labels=2)
    for data in (read_blogcatalog_csv(tmp_path), read_blogcatalog(tmp_path / "b.npz")):
        assert data.edge_index.tolist() == [[0, 1, 1, 2], [1, 2, 0, 1]]
        assert data.y.tolist() == [[0, 1], [0, 0], [1, 1]]
        assert data.y.dtype == torch.float32
        assert data.num_nodes == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edges": "1,4\n"}, "an index is outside of the 3 bloggers and 2 groups"),
        ({"edges": "0,1\n"}, "an index is outside of the 3 bloggers and 2 groups"),
        ({"group_edges": "1,3\n"}, "an index is outside of the 3 bloggers and 2 groups"),
        ({"edges": "1,2,3\n"}, r"must have shape \[\*, 2\], got \[1, 3\]"),
        ({"edges": "a,b\n"}, "edges.csv cannot be read"),
    ],
)
def test_wrong_tables_are_named(tmp_path, changes, message):
    write(tmp_path, **changes)
    with pytest.raises(ValueError, match=message):
        read_blogcatalog_csv(tmp_path)


def test_missing_and_foreign_files_are_named(tmp_path):
    write(tmp_path)
    (tmp_path / "groups.csv").unlink()
    with pytest.raises(FileNotFoundError, match="groups.csv does not exist; BlogCatalog needs it"):
        read_blogcatalog_csv(tmp_path)
    np.savez(tmp_path / "b.npz", edge=[[0, 1]])
    with pytest.raises(ValueError, match="b.npz is not a file of BlogCatalog: .*member"):
        read_blogcatalog(tmp_path / "b.npz")
    np.savez(tmp_path / "b.npz", edge=np.array([{}, 1], dtype=object))
    with pytest.raises(ValueError, match="b.npz is not a file of BlogCatalog"):
        read_blogcatalog(tmp_path / "b.npz")


def test_the_real_graph(tmp_path):
    path = SHARED / "blogcatalog" / "blogcatalog.npz"
    if not path.exists():
        pytest.skip("no BlogCatalog beside the project")
    data = read_blogcatalog(path)
    assert (data.num_nodes, data.num_edges, int(data.y.sum())) == (10312, 2 * 333983, 14476)
    assert data.is_undirected()
    edge, member = data.edge_index[:, :333983].t() + 1, data.y.nonzero() + 1
    write(
        tmp_path,
        nodes="\n".join(map(str, range(1, 10313))),
        groups="\n".join(map(str, range(1, 40))),
        edges="\n".join(f"{a},{b}" for a, b in edge.tolist()),
        group_edges="\n".join(f"{a},{b}" for a, b in member.tolist()),
    )
    again = read_blogcatalog_csv(tmp_path)
    assert torch.equal(again.edge_index, data.edge_index)
    assert torch.equal(again.y, data.y)
