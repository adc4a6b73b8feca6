"""Models that can be trained by name: tGNN and the models that the paper compares with.

Each file holds one model, or a family of models that share their layers. Its builders are registered by
:func:`~tgnn.models.registration.register_model`. Layers are those of PyG wherever PyG has them.
"""

from tgnn.models.registration import (
    MODELS,
    DataShape,
    Model,
    ModelError,
    build_model,
    count_hops,
    get_model,
    model_options,
    register_model,
)
from tgnn.models.search_ranges import search_space

# Importing a file registers its models. They are listed in the order of these imports, which are therefore not sorted.
# isort: off
from tgnn.models import tgnn  # noqa: F401
from tgnn.models import mlp, gcn, gat, graphsage, gin, pna  # noqa: F401
from tgnn.models import monet, phm_gnn, dgn, graph_pooling  # noqa: F401
from tgnn.models import pagerank, mixhop, h2gcn, deep_gcn, node2vec  # noqa: F401
from tgnn.models import pooling  # noqa: F401
from tgnn.models import with_cp_variants  # noqa: F401
# isort: on

__all__ = [
    "MODELS",
    "DataShape",
    "Model",
    "ModelError",
    "build_model",
    "count_hops",
    "get_model",
    "model_options",
    "register_model",
    "search_space",
]
