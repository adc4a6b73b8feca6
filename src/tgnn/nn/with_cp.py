"""Existing models, made high-order."""

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
from tgnn.nn.checks import check_size
from tgnn.nn.conv import TGNNConv


class Change(NamedTuple):
    """What :func:`with_cp` did to one module."""

    name: str
    module: str
    before: str
    after: str


def with_cp(model: torch.nn.Module, rank: int, *, skip: Collection[str] = (), verbose: bool = True) -> torch.nn.Module:
    """A copy of a PyG model whose layers and readouts multiply their neighbors beside what they do already.

    The aggregation of every ``MessagePassing`` layer, and every ``Aggregation`` used as a readout, becomes a
    :class:`~tgnn.nn.HighOrderAggregation` of it. All weights are kept, and the new branch starts at 0: the outputs are
    those of the given model until it is trained on. This is the first item of the paper's future work.

    Args:
        model: Any model of PyG layers; it is not changed.
        rank: Rank of every new product.
        skip: Names of modules to leave as they are (as in ``model.named_modules()``).
        verbose: Whether to print what was changed; it is in ``cp_changes`` of the result, too.

    Layers whose width only an input tells (those other than GCN, GAT, GraphSAGE, GIN and PNA, and readouts) have
    uninitialized parameters until the first forward pass, as PyG's and torch's lazy modules do.

    Example:
        >>> from torch_geometric.nn import GCN
        >>> model = with_cp(GCN(16, 32, num_layers=2, out_channels=7), rank=8)
        with_cp: 2 changed
          convs.0 (GCNConv): SumAggregation() -> HighOrderAggregation(SumAggregation(), rank=8)
          convs.1 (GCNConv): SumAggregation() -> HighOrderAggregation(SumAggregation(), rank=8)
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model must be a module, got {model!r}")
    check_size("rank", rank)
    skip = [skip] if isinstance(skip, str) else skip
    model = copy.deepcopy(model)
    modules = dict(model.named_modules(remove_duplicate=False))
    if unknown := set(skip) - set(modules):
        raise ValueError(f"skip names {sorted(unknown)[0]!r}, but the model has no such module")
    if refused := _refused(modules, skip):
        parts = [
            f"{name or 'the model'} ({type(modules[name]).__name__}), which {why}" for name, why in refused.items()
        ]
        way_out = "" if "" in refused else f". Leave it as it is with skip={list(refused)}"
        raise ValueError(f"with_cp cannot change {', '.join(parts)}{way_out}")
    changes = [_change(modules, name, rank) for name in _changeable(modules, skip)]
    if not changes:
        raise ValueError("with_cp found no layer and no readout to change: none is there, or all multiply already")
    model = modules[""]
    model.cp_changes = changes  # type: ignore[assignment]
    if verbose:
        lines = [f"  {c.name or 'the model'} ({c.module}): {c.before} -> {c.after}" for c in changes]
        notes = [f"  not changed: {note}" for note in _functions_called(modules)]
        print("\n".join([f"with_cp: {len(changes)} changed", *lines, *notes]))
    return model


# ---- what can be changed ---------------------------------------------------------------------------------------


def _refused(modules: dict[str, torch.nn.Module], skip: Collection[str]) -> dict[str, str]:
    """Layers that pool in a way that cannot be replaced, and why."""
    reasons = {}
    for name, module in modules.items():
        if not isinstance(module, MessagePassing) or isinstance(module, TGNNConv) or name in skip:
            continue
        if type(module).aggregate is not MessagePassing.aggregate or module.aggr_module is None:
            reasons[name] = "has an aggregate() of its own"
        elif not _calls_propagate(type(module)):
            reasons[name] = "does not call propagate()"
    return reasons


def _changeable(modules: dict[str, torch.nn.Module], skip: Collection[str]) -> list[str]:
    """Layers, and aggregations that are not part of a layer or of another aggregation."""
    found: list[str] = []
    for name, module in modules.items():  # parents come before their children
        inside = any(parent in ("", name) or name.startswith(f"{parent}.") for parent in [*found, *skip])
        is_layer = isinstance(module, MessagePassing) and not isinstance(module, TGNNConv)
        is_readout = isinstance(module, Aggregation) and not isinstance(module, (CPAggregation, HighOrderAggregation))
        if is_layer and isinstance(module.aggr_module, (CPAggregation, HighOrderAggregation)):
            continue
        owner = modules[name.rpartition(".")[0]] if name else None
        if not inside and not isinstance(owner, (MessagePassing, Aggregation)) and (is_layer or is_readout):
            found.append(name)
    return found


def _calls_propagate(kind: type) -> bool:
    """Whether its ``forward`` does, or hands on to one that does."""
    for forward in (vars(parent)["forward"] for parent in kind.__mro__ if "forward" in vars(parent)):
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
    """Readouts that are functions and not modules: they have no place for parameters."""
    pools = ("global_add_pool", "global_mean_pool", "global_max_pool")
    kept = [
        f"{type(module).__name__}.{name} is the function {value.__name__}; use an Aggregation module there"
        for module in modules.values()
        for name, value in vars(module).items()
        if getattr(value, "__name__", None) in pools
    ]
    return kept + [
        f"{type(module).__name__}.forward calls {pool}; use an Aggregation module there and it will be"
        for module in modules.values()
        for pool in pools
        if pool in _names_in(type(module).forward)
    ]


# ---- changing --------------------------------------------------------------------------------------------------


def _change(modules: dict[str, torch.nn.Module], name: str, rank: int) -> Change:
    module = modules[name]
    own = [p for m in (module, modules[""]) for p in m.parameters() if p.is_floating_point()]
    like = {"device": own[0].device, "dtype": own[0].dtype} if own else {}
    if isinstance(module, HighOrderAggregation):  # a readout of two names, changed under the first
        return Change(name, type(module.low).__name__, repr(module.low), repr(module))
    if isinstance(module, MessagePassing):
        before = module.aggr_module
        if isinstance(before, HighOrderAggregation):  # a layer of two names
            return Change(name, type(module).__name__, repr(before.low), repr(before))
        after = HighOrderAggregation(before, rank, *_widths(module)).to(**like)
        module.aggr_module, module.aggr, module.fuse = after, None, False
        module.register_aggregate_forward_pre_hook(_hand_over_mask)
    else:
        before = module
        after = HighOrderAggregation(module, rank).to(**like)
        for other in [n for n, m in modules.items() if m is module]:
            parent, _, attribute = other.rpartition(".")
            if other:
                setattr(modules[parent], attribute, after)
            modules[other] = after
    return Change(name, type(module).__name__, repr(before), repr(after))


def _widths(layer: MessagePassing) -> tuple[int | None, int | None]:
    """Widths of messages and of what is made of them, where the layer tells."""
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


def _hand_over_mask(layer: MessagePassing, inputs: tuple[dict[str, Any]]) -> None:
    """Under a PyG explainer messages are multiplied by a mask; a product must know it: a masked factor is 1."""
    if not layer.explain:
        return
    (arguments,) = inputs
    mask: Tensor = layer._edge_mask.sigmoid() if layer._apply_sigmoid else layer._edge_mask
    if mask.numel() != arguments["index"].numel():  # the layer has added self-loops
        mask = torch.cat([mask[layer._loop_mask], mask.new_ones(arguments["dim_size"])])
    layer.aggr_module.mask = mask
