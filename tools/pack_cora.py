"""Pack Planetoid's files of Cora into src/tgnn/data/catalog/cora.npz, the copy that is installed with tgnn.

The file has the format of ``tgnn data convert`` (see tgnn.data.readers.graph_npz). Its integers have the smallest type
that holds them, and its arrays are compressed. Nothing is rounded or left out. The written file is read again and
compared with Planetoid's.

Run: python tools/pack_cora.py FOLDER, where FOLDER holds ind.cora.x and the other files of
https://github.com/kimiyoung/planetoid/tree/master/data. Their checksums are in tgnn.data.catalog.node_graphs.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from tgnn.data.catalog import CATALOG
from tgnn.data.download.locate import find_in_root
from tgnn.data.readers.graph_npz import read_graph, write_graphs

TARGET = Path(__file__).parents[1] / "src/tgnn/data/catalog/cora.npz"


def pack(folder: Path, target: Path = TARGET) -> None:
    """Write the file from Planetoid's files and compare the result with them.

    Args:
        folder: Folder of Planetoid's files. Their checksums are verified.
        target: Path of the file to write.
    """
    found = find_in_root(CATALOG["cora"], folder)
    if found is None:
        raise FileNotFoundError(f"{folder} does not contain Planetoid's files of Cora")
    data = found.layout.read(found.folder)
    write_graphs(data, target)
    packed = read_graph(target)
    for name in ("edge_index", "y", "train_mask", "val_mask", "test_mask"):
        assert torch.equal(packed[name], data[name]), name
    for part in ("crow_indices", "col_indices", "values"):
        assert torch.equal(getattr(packed.x, part)(), getattr(data.x, part)()), part
    print(f"{target}: {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    pack(Path(sys.argv[1]))
