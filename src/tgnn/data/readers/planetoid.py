"""Reader of Planetoid's files of Cora, Citeseer and Pubmed, with an unpickler that only creates arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse
import torch
from torch_geometric.data import Data
from torch_geometric.utils import coalesce, remove_self_loops

from tgnn.data.readers.unpickle import read_arrays
from tgnn.data.tensors import torch_csr

FILE_PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")


def read_planetoid(folder: Path | str, name: str) -> Data:
    """Read a citation network with sparse features and Planetoid's public split as masks."""
    paths = {part: Path(folder) / f"ind.{name}.{part}" for part in FILE_PARTS}
    parts = {part: read_arrays(path.read_bytes(), str(path)) for part, path in paths.items() if part != "test.index"}
    test = np.loadtxt(paths["test.index"], dtype=np.int64)
    first, count = int(test.min()), int(test.max()) - int(test.min()) + 1
    tx, ty = scipy.sparse.csr_matrix(parts["tx"]), np.asarray(parts["ty"])
    # The rows of tx are in the order of test.index. Citeseer has nodes that are in no file; their features are 0.
    order = scipy.sparse.csr_matrix(
        (np.ones(len(test)), (test - first, np.arange(len(test)))), shape=(count, len(test))
    )
    features = scipy.sparse.vstack([parts["allx"], order @ tx]).tocsr()
    labels = np.vstack([parts["ally"], order @ ty]).argmax(1)
    n = features.shape[0]
    edges = [(u, v) for u, neighbors in parts["graph"].items() for v in neighbors]
    edge_index, _ = remove_self_loops(torch.tensor(edges, dtype=torch.int64).t().contiguous())
    num_train = len(parts["y"])
    node = torch.arange(n)
    return Data(
        x=torch_csr(features),
        edge_index=coalesce(edge_index, num_nodes=n, sort_by_row=False),
        y=torch.from_numpy(labels).long(),
        train_mask=node < num_train,
        val_mask=(node >= num_train) & (node < num_train + 500),
        test_mask=torch.isin(node, torch.from_numpy(test)),
        num_nodes=n,
    )
