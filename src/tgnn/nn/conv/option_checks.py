"""Checks of the options of TGNNConv."""

from __future__ import annotations

from typing import Any

from tgnn.nn.aggr.cp import Activation
from tgnn.nn.feature_maps import check_choice, check_size


def check_branches(
    in_channels: Any,
    out_channels: int,
    rank: int,
    low_order: str | None,
    add_self_loops: bool | None,
    high_scale: float | None,
) -> None:
    """Check the sizes, and the options of the sum branch and of both branches together."""
    check_size("out_channels", out_channels)
    check_size("rank", rank, minimum=0 if low_order is not None else 1)
    check_choice("low_order", low_order, ("sum", "mean", "gcn", "gated_sum", "gated_mean", None))
    if high_scale is not None and not 0 <= high_scale < float("inf"):
        raise ValueError(f"high_scale is {high_scale}, but must be a number of at least 0, or None.")
    is_pair = isinstance(in_channels, (tuple, list))
    if is_pair and len(in_channels) != 2:
        raise ValueError(f"in_channels is {in_channels}, but must be a number or a pair of numbers.")
    if is_pair and add_self_loops:
        raise ValueError(
            f"add_self_loops=True does not support a pair of in_channels, {in_channels}; use root_weight=True."
        )


def check_factors(
    factors: str,
    bound: float,
    degree_exponent: float,
    edge_dim: int | None,
    two_ended: bool,
    factor_act: Activation,
    affine: tuple[float, float] | None,
    edge_gate: bool,
) -> None:
    """Check the options of the factors of the product."""
    check_choice("factors", factors, ("plain", "weighted", "tempered", "bounded"))
    if edge_dim is not None:
        check_size("edge_dim", edge_dim, lazy=True)
    has_edge_terms = edge_dim is not None or two_ended
    if factors != "bounded" and degree_exponent != 0:
        raise ValueError(f"degree_exponent is {degree_exponent}, but needs factors='bounded', got {factors!r}.")
    if factors == "bounded" and factor_act is not None:
        raise ValueError(f"factor_act is {factor_act!r}, but factors='bounded' has its own activation; use None.")
    if not 0 < bound < 1:
        raise ValueError(f"bound is {bound}, but must be above 0 and below 1.")
    if not 0 <= degree_exponent <= 1:
        raise ValueError(f"degree_exponent is {degree_exponent}, but must lie in [0, 1].")
    if has_edge_terms and factor_act not in (None, "tanh", "sigmoid"):
        raise ValueError(
            f"factor_act is {factor_act!r}, but must be None, 'tanh' or 'sigmoid' with edge_dim or two_ended."
        )
    if affine is not None and factors == "bounded":
        raise ValueError(f"affine is {affine}, but must be None with factors='bounded'.")
    if edge_gate and edge_dim is None:
        raise ValueError("edge_gate=True needs edge_dim, but edge_dim is None.")


def check_rows_of_edges(
    low_order: str | None, add_self_loops: bool | None, exclusive: bool, edge_dim: int | None, fill_value: Any
) -> None:
    """Check the options that ``exclusive=True`` and ``fill_value`` need."""
    if isinstance(fill_value, str):
        check_choice("fill_value", fill_value, ("sum", "add", "mean", "min", "max", "mul"))
    if fill_value is not None and edge_dim is None:
        raise ValueError(f"fill_value is {fill_value!r}, but needs edge_dim, which is None.")
    if not exclusive:
        return
    if low_order is not None or add_self_loops:
        raise ValueError(
            f"exclusive=True needs low_order=None and no self-loops, but low_order is {low_order!r} and "
            f"add_self_loops is {add_self_loops}."
        )
