"""with_cp: add CP layers to the aggregations of an existing PyG model."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.nn import conv as convs
from torch_geometric.nn.aggr import Aggregation
from torch_geometric.nn.conv import MessagePassing

from tgnn.nn.aggr import CPAggregation, HighOrderAggregation
from tgnn.nn.conv import TGNNConv
from tgnn.nn.feature_maps import check_size


class Change(NamedTuple):
    """One aggregation that :func:`with_cp` has replaced."""

    name: str
    """Name of the module in ``model.named_modules()``."""
    module: str
    """Class of the module."""
    before: str
    """The aggregation before."""
    after: str
    """The aggregation after."""


def with_cp(model: torch.nn.Module, rank: int, *, skip: Collection[str] = (), verbose: bool = True) -> torch.nn.Module:
    r"""Return a copy of a PyG model with a CP layer added to the aggregation of every layer and readout.

    .. math::
        \operatorname{aggr}'(X) = \operatorname{aggr}(X) + M \tanh \Big( \prod_i W^\top
        \begin{bmatrix} x_i \\ 1 \end{bmatrix} \Big), \qquad M = 0 \text{ before training}

    The aggregation of every ``MessagePassing`` layer, and every ``Aggregation`` used as a readout, is replaced by a
    :class:`~tgnn.nn.HighOrderAggregation` of it. All weights are kept. The new branch is initialized with 0, so the
    outputs do not change until the model is trained further. The paper names this as future work.

    Layers other than GCN, GAT, GraphSAGE, GIN and PNA, and readouts, infer the number of features from the first
    forward pass. Until then the new parameters are uninitialized, as in the lazy modules of PyG and torch.

    Args:
        model: Any model of PyG layers. It is not modified.
        rank: CP rank of every new product.
        skip: Names of modules that are not changed (as in ``model.named_modules()``).
        verbose: Whether to print the changes. The result also stores them in ``cp_changes``.

    Shapes:
        - **input and output:** those of ``model``

    Example:
        >>> from torch_geometric.nn import GCN
        >>> model = with_cp(GCN(16, 32, num_layers=2, out_channels=7), rank=8)
        with_cp: 2 changed
          convs.0 (GCNConv): SumAggregation() -> HighOrderAggregation(SumAggregation(), rank=8)
          convs.1 (GCNConv): SumAggregation() -> HighOrderAggregation(SumAggregation(), rank=8)
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {model!r}.")
    check_size("rank", rank)
    skip = [skip] if isinstance(skip, str) else skip
    model = copy.deepcopy(model)
    modules = dict(model.named_modules(remove_duplicate=False))
    if unknown := set(skip) - set(modules):
        raise ValueError(f"skip contains {sorted(unknown)[0]!r}, but the model has no module of this name.")
    if refused := _refused(modules, skip):
        parts = [
            f"{name or 'the model'} ({type(modules[name]).__name__}), which {why}" for name, why in refused.items()
        ]
        hint = "" if "" in refused else f" To leave it unchanged, pass skip={list(refused)}."
        raise ValueError(f"with_cp cannot change {', '.join(parts)}.{hint}")
    changes = [_change(modules, name, rank) for name in _changeable(modules, skip)]
    if not changes:
        raise ValueError("with_cp found no aggregation to change; the model has none, or all have a CP layer.")
    model = modules[""]
    model.cp_changes = changes  # type: ignore[assignment]
    if verbose:
        lines = [f"  {c.name or 'the model'} ({c.module}): {c.before} -> {c.after}" for c in changes]
        notes = [f"  not changed: {note}" for note in _functions_called(modules)]
        print("\n".join([f"with_cp: {len(changes)} changed", *lines, *notes]))
    return model


# ---- selection of modules --------------------------------------------------------------------------------------


def _refused(modules: dict[str, torch.nn.Module], skip: Collection[str]) -> dict[str, str]:
    """Return the layers whose aggregation cannot be replaced, with the reason."""
    reasons = {}
    for name, module in modules.items():
        if not isinstance(module, MessagePassing) or isinstance(module, TGNNConv) or name in skip:
            continue
        if type(module).aggregate is not MessagePassing.aggregate or module.aggr_module is None:
            reasons[name] = "overrides aggregate()"
        elif not _calls_propagate(type(module)):
            reasons[name] = "does not call propagate()"
    return reasons


def _changeable(modules: dict[str, torch.nn.Module], skip: Collection[str]) -> list[str]:
    """Return the layers, and the aggregations that are not part of a layer or of another aggregation.

    A module with several names is returned under its first one.
    """
    names: list[str] = []
    for name, module in modules.items():  # parents come before their children
        inside = any(parent in ("", name) or name.startswith(f"{parent}.") for parent in [*names, *skip])
        is_layer = isinstance(module, MessagePassing) and not isinstance(module, TGNNConv)
        aggregation = module.aggr_module if is_layer else module
        has_cp = isinstance(aggregation, (CPAggregation, HighOrderAggregation))
        owner = modules[name.rpartition(".")[0]] if name else None
        is_part = inside or isinstance(owner, (MessagePassing, Aggregation))
        is_known = any(module is modules[other] for other in names)
        if isinstance(aggregation, Aggregation) and not (has_cp or is_part or is_known):
            names.append(name)
    return names


def _calls_propagate(layer_class: type) -> bool:
    """Return whether ``forward`` of the class, or a ``forward`` that it inherits and calls, calls ``propagate``."""
    for forward in (vars(parent)["forward"] for parent in layer_class.__mro__ if "forward" in vars(parent)):
        names = _names_in(forward)
        if "propagate" in names:
            return True
        if not {"super", "forward"} <= set(names):
            return False
    return False


def _names_in(function: Callable[..., Any]) -> tuple[str, ...]:
    code = getattr(function, "__code__", None)
    return code.co_names if code is not None else ("propagate",)


def _functions_called(modules: dict[str, torch.nn.Module]) -> list[str]:
    """Describe readouts that are functions. They cannot hold parameters, so they are not changed."""
    pools = ("global_add_pool", "global_mean_pool", "global_max_pool")
    notes = [
        f"{type(module).__name__}.{name} is the function {value.__name__}; use an Aggregation module there"
        for module in modules.values()
        for name, value in vars(module).items()
        if getattr(value, "__name__", None) in pools
    ]
    return notes + [
        f"{type(module).__name__}.forward calls {pool}; use an Aggregation module there"
        for module in modules.values()
        for pool in pools
        if pool in _names_in(type(module).forward)
    ]


# ---- replacement -----------------------------------------------------------------------------------------------


def _change(modules: dict[str, torch.nn.Module], name: str, rank: int) -> Change:
    module = modules[name]
    parameters = [p for m in (module, modules[""]) for p in m.parameters() if p.is_floating_point()]
    like = {"device": parameters[0].device, "dtype": parameters[0].dtype} if parameters else {}
    if isinstance(module, MessagePassing):
        before = module.aggr_module
        after = HighOrderAggregation(before, rank, *_message_sizes(module)).to(**like)
        module.aggr_module, module.aggr, module.fuse = after, None, False
        module.register_aggregate_forward_pre_hook(_pass_mask)
    else:
        before = module
        after = HighOrderAggregation(module, rank).to(**like)
        for other in [n for n, m in modules.items() if m is module]:
            parent, _, attribute = other.rpartition(".")
            if other:
                setattr(modules[parent], attribute, after)
            modules[other] = after
    return Change(name, type(module).__name__, repr(before), repr(after))


def _message_sizes(layer: MessagePassing) -> tuple[int | None, int | None]:
    """Return the numbers of message features and of aggregated features, or ``None`` if the layer does not say."""
    if isinstance(layer, convs.PNAConv):
        scalers, aggregators = len(layer.aggr_module.scaler), len(layer.aggr_module.aggr.aggrs)
        return layer.F_in, layer.F_in * scalers * aggregators
    if isinstance(layer, (convs.GCNConv, convs.GATConv, convs.GATv2Conv)):
        return layer.out_channels, layer.out_channels
    if isinstance(layer, convs.SAGEConv) and isinstance(layer.aggr, str):
        width = layer.in_channels if isinstance(layer.in_channels, int) else layer.in_channels[0]
        return (width, width) if width > 0 else (None, None)
    if isinstance(layer, convs.GINConv):
        first = next((m for m in layer.nn.modules() if hasattr(m, "in_channels") or hasattr(m, "in_features")), None)
        width = getattr(first, "in_channels", getattr(first, "in_features", None))
        return (width, width) if isinstance(width, int) and width > 0 else (None, None)
    return None, None


def _pass_mask(layer: MessagePassing, inputs: tuple[dict[str, Any]]) -> None:
    """Pass the mask of a PyG explainer to the product: a masked message must have the factor 1, not 0."""
    if not layer.explain:
        return
    (arguments,) = inputs
    mask: Tensor = layer._edge_mask.sigmoid() if layer._apply_sigmoid else layer._edge_mask
    if mask.numel() != arguments["index"].numel():  # the layer has added self-loops
        mask = torch.cat([mask[layer._loop_mask], mask.new_ones(arguments["dim_size"])])
    layer.aggr_module.mask = mask
