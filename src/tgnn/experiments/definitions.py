"""Definitions of all experiments: the tables and figures of the paper, and some beyond it.

Titles and notes are shown from here, not from result files (:mod:`tgnn.experiments.captions`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tgnn.experiments import decoding, own_data, spreading
from tgnn.experiments.experiment import Column, Experiment, Row
from tgnn.experiments.graph_tables import (
    EARLIER_ZINC,
    EARLIER_ZINC_TGNN,
    SAME_READOUT,
    TABLE_2_COLUMNS,
    TABLE_2_FULL_COLUMNS,
    TABLE_2_FULL_NOTES,
    TABLE_2_FULL_ROWS,
    TABLE_2_NOTES,
    TABLE_2_POSITIONS,
    TABLE_2_ROWS,
)
from tgnn.experiments.interactions import NOTES as INTERACTION_NOTES
from tgnn.experiments.interactions import ORDERS, POOLINGS, WIDTHS, measure_interaction
from tgnn.experiments.notes import NOTES
from tgnn.experiments.own_tasks import TASKS
from tgnn.experiments.theorems import CHECKS, measure_theorem

CITATION = ("cora", "citeseer", "pubmed")
SIZES = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
_EFFICIENCY_OPTIONS = {
    "model.dropout": 0.0,
    "model.input_dropout": 0.0,
    "optimizer.lr": 0.005,
    "optimizer.weight_decay": 5e-5,
    "model.num_layers": 2,
    "data.split": "per-class-quota",
    "data.features": "row-sum",
    "train.select_by": "metric",
    "train.prior_correction": "none",
}

_NO_PRIOR_CORRECTION = {"train.prior_correction": "none"}


def _models(*names: str) -> list[Row]:
    return [(name, name, {}) for name in names]


def _data(names: Iterable[str], options: Mapping[str, Any] | None = None) -> dict[str, Column]:
    return {name: (name, options or {}) for name in names}


def _sized(model: str, sizes: Iterable[int], key: str, options: Mapping[str, Any] | None = None) -> list[Row]:
    """Return one row for each value of a hyperparameter, such as the rank."""
    return [(f"{model} {size}", model, {**(options or {}), key: size}) for size in sizes]


_PAPER_EQUATION = {
    **_EFFICIENCY_OPTIONS,
    "model.hidden_channels": 32,
    "model.factors": "plain",
    "model.low_order": "sum",
    "model.root_weight": False,
    "model.mix": "sum",
    "model.norm": None,
    "model.jk": None,
    "optimizer.cp_lr": None,
}
"""Options for the unmodified Eq. (5) with one learning rate for all parameters."""

_PLAIN_GCN = {**_EFFICIENCY_OPTIONS, "model.norm": None, "model.jk": None}
_PLAIN_GAT = {**_PLAIN_GCN, "model.out_heads": None, "model.separate": True, "model.attention_dropout": 0.0}
_EFFICIENCY_ROWS: list[Row] = [
    *_sized("tgnn", (8, 32, 64, 128, 256, 512, 1024), "model.rank", _PAPER_EQUATION),
    *_sized("gcn", (32, 64), "model.hidden_channels", _PLAIN_GCN),
    *(
        (f"gat {hidden}x{heads}", "gat", {**_PLAIN_GAT, "model.hidden_channels": hidden, "model.heads": heads})
        for hidden in (32, 64)
        for heads in (1, 8)
    ),
    *_sized("gcn2", (32, 64, 1433), "model.hidden_channels", _EFFICIENCY_OPTIONS),
]
_POOLING_ROWS = [
    *_sized("tgnn", (8,), "model.rank", _PAPER_EQUATION),
    *(row for m in ("mean", "max", "sum") for row in _sized(m, (32, 64), "model.hidden_channels", _EFFICIENCY_OPTIONS)),
]
_RANK_ROWS = [
    *_sized("tgnn", SIZES, "model.rank", {"model.hidden_channels": 32}),
    *(row for model in ("gcn", "graphsage") for row in _sized(model, SIZES, "model.hidden_channels")),
]
_CITATION_MODELS = _models("gcn", "gat", "graphsage", "h2gcn", "gprgnn", "appnp", "mixhop", "tgnn")

_ALL = (
    Experiment(
        "table-1-citation",
        "Node classification on citation networks (Table 1, left)",
        _CITATION_MODELS,
        _data(CITATION),
        notes=NOTES["table-1-citation"],
    ),
    Experiment(
        "table-1-ogb",
        "Node classification on OGB (Table 1, right)",
        _models("mlp", "node2vec", "gcn", "graphsage", "deepergcn", "tgnn"),
        _data(("ogbn-products", "ogbn-arxiv", "ogbn-proteins")),
        runs=5,
        notes=NOTES["table-1-ogb"],
    ),
    Experiment(
        "table-2-graph",
        "Graph regression and classification (Table 2)",
        TABLE_2_ROWS,
        TABLE_2_COLUMNS,
        runs=2,
        positions=TABLE_2_POSITIONS,
        notes=TABLE_2_NOTES,
    ),
    Experiment(
        "table-2-full",
        "Graph regression and classification with the full training budget (Table 2)",
        TABLE_2_FULL_ROWS,
        TABLE_2_FULL_COLUMNS,
        runs=4,
        notes=TABLE_2_FULL_NOTES,
        paper_table="table-2-graph",
    ),
    Experiment(
        "table-3-ablation",
        "Ablation: product branch, sum branch and both (Table 3)",
        [
            ("cp", "tgnn", {"model.low_order": None, "model.mix": "sum"}),
            ("sum", "tgnn", {"model.rank": 0, "model.mix": "sum", "optimizer.cp_lr": None}),
            ("cp+sum", "tgnn", {}),
        ],
        {**_data(("cora", "pubmed")), "zinc": ("zinc", {**EARLIER_ZINC, **EARLIER_ZINC_TGNN})},
        notes=NOTES["table-3-ablation"],
    ),
    Experiment(
        "figure-rank",
        "Accuracy against rank or number of hidden channels (Figure 3)",
        _RANK_ROWS,
        _data(CITATION, _NO_PRIOR_CORRECTION),
        layout="rank",
        notes=NOTES["figure-rank"],
    ),
    Experiment(
        "table-tu",
        "Graph classification under the protocol of Errica et al. (appendix)",
        _models("gin", "gmt", "soppool", "tgnn"),
        _data(("mutag", "proteins", "imdb-binary", "imdb-multi", "collab")),
        notes=NOTES["table-tu"],
    ),
    Experiment(
        "table-efficiency",
        "Parameters, training time and accuracy on Cora (appendix)",
        _EFFICIENCY_ROWS,
        {
            "3": ("cora", {"train.num_neighbors": (3, 3), "train.batch_size": 4096}),
            "10": ("cora", {"train.num_neighbors": (10, 10), "train.batch_size": 4096}),
            "full": ("cora", {}),
        },
        layout="efficiency",
        notes=NOTES["table-efficiency"],
    ),
    Experiment(
        "table-pooling",
        "tGNN against mean, max and sum pooling on Cora (appendix)",
        _POOLING_ROWS,
        _data(("cora",)),
        layout="efficiency",
        notes=NOTES["table-pooling"],
    ),
    Experiment(
        "figure-mixing",
        "Accuracy with learned branch weights (appendix)",
        [("tgnn scalar", "tgnn", {"model.mix": "scalar"})],
        _data(CITATION, _NO_PRIOR_CORRECTION),
        runs=3,
        layout="mixing",
        series=("a_high/", "a_low/"),
        notes=NOTES["figure-mixing"],
    ),
    Experiment(
        "table-prior-correction",
        "Accuracy with and without prior correction (beyond the paper)",
        [
            row
            for model in ("gcn", "tgnn")
            for row in (
                (f"{model} without prior correction", model, _NO_PRIOR_CORRECTION),
                (model, model, {}),
            )
        ],
        _data(CITATION),
        notes=NOTES["table-prior-correction"],
    ),
    Experiment(
        "table-stratified",
        "Node classification on citation networks with stratified splits (beyond the paper)",
        _CITATION_MODELS,
        _data(CITATION, {"data.split": "stratified", **_NO_PRIOR_CORRECTION}),
        notes=NOTES["table-stratified"],
    ),
    Experiment(
        "table-dense",
        "Node classification on graphs with high-degree nodes (beyond the paper)",
        _models("gcn", "graphsage", "tgnn"),
        _data(("amazon-computers", "blogcatalog"), {"data.split": "stratified"}),
        runs=5,
        notes=NOTES["table-dense"],
    ),
    Experiment(
        "table-zinc",
        "Graph regression on ZINC with and without bond features, same readout and training budget (beyond the paper)",
        [
            ("gin", "gin", {**SAME_READOUT, "model.hidden_channels": 97, "model.jk": "cat"}),
            ("pna", "pna", {**SAME_READOUT, "model.hidden_channels": 70, "model.towers": 5}),
            ("tgnn", "tgnn", EARLIER_ZINC_TGNN),
        ],
        {
            "atoms": ("zinc", {**EARLIER_ZINC, "data.edge_features": False}),
            "atoms and bonds": ("zinc", {**EARLIER_ZINC, "data.edge_features": True}),
        },
        runs=4,
        notes=NOTES["table-zinc"],
    ),
    Experiment(
        "theorems",
        "Numerical checks of the three theorems of the paper",
        [(theorem, "Theorem", {}) for theorem in dict.fromkeys(theorem for theorem, _ in CHECKS)],
        _data(case for _, case in CHECKS),
        runs=1,
        layout="theorems",
        positions=CHECKS,
        measure=measure_theorem,
    ),
    Experiment(
        "figure-interactions",
        "Accuracy on planted interactions of 1 to 8 neighbors (beyond the paper)",
        [(f"{pooling} {width}", pooling, {}) for pooling in POOLINGS for width in WIDTHS],
        _data(map(str, ORDERS)),
        layout="interactions",
        runs=3,
        notes=INTERACTION_NOTES,
        measure=measure_interaction,
    ),
    Experiment(
        "table-decoding",
        "Bit error rates of decoders for error-correcting codes (beyond the paper)",
        _models(*decoding.NETWORK_ROWS, *decoding.BELIEF_PROPAGATION_ROWS),
        {column: (point.trained_on, {}) for column, point in decoding.POINTS.items()},
        layout="decoding",
        runs=5,
        notes=decoding.NOTES,
        measure=decoding.measure_decoding,
        describe=decoding.describe_decoding,
    ),
    Experiment(
        "table-own-data",
        "Default recipes on tables without a recipe of their own (beyond the paper)",
        own_data.ROWS,
        {name: (name, {}) for name in TASKS},
        runs=5,
        notes=own_data.NOTES,
        measure=own_data.measure_own_data,
        describe=own_data.describe_own_data,
    ),
    Experiment(
        "table-spreading",
        "Predicted infections in epidemics on real networks (beyond the paper)",
        _models(*spreading.ROWS),
        _data(spreading.COLUMNS),
        runs=3,
        notes=spreading.NOTES,
        measure=spreading.measure_spreading,
        describe=spreading.describe_spreading,
    ),
)

EXPERIMENTS: Mapping[str, Experiment] = {experiment.name: experiment for experiment in _ALL}
"""All experiments by name, in the order of the paper."""
