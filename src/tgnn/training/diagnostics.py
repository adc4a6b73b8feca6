"""Is the product branch alive? What a user cannot see in the loss."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor

from tgnn.nn import CPAggregation, TGNNConv
from tgnn.nn.mixing import ScalarMix

_NEAR_ONE, _NEAR_ZERO = 0.99, 1e-4
DEAD = 0.95
"""Share of products at which a layer is called dead."""


@contextlib.contextmanager
def watching(model: torch.nn.Module) -> Iterator[dict[str, Tensor]]:
    """Collects the activated products of every CP layer during a forward pass, by the name of the layer."""
    seen: dict[str, Tensor] = {}
    layers = {n: module for n, module in model.named_modules() if isinstance(module, CPAggregation)}
    for name, layer in layers.items():
        layer.product_hook = lambda product, name=name: seen.__setitem__(name, product.detach())
    try:
        yield seen
    finally:
        for layer in layers.values():
            layer.product_hook = None


def shares(seen: dict[str, Tensor]) -> dict[str, float]:
    """Of all products: saturated (tanh is 1 or -1 there, and its slope 0), and vanished (0, so nothing passes)."""
    found = {}
    for name, product in seen.items():
        size = product.abs()
        found[f"saturated/{name}"] = float((size > _NEAR_ONE).float().mean())
        found[f"vanished/{name}"] = float((size < _NEAR_ZERO).float().mean())
    return found


def branch_weights(model: torch.nn.Module) -> dict[str, float]:
    """``a_high`` and ``a_low`` of every layer that learns them."""
    found = {}
    for name, module in model.named_modules():
        if isinstance(module, TGNNConv) and isinstance(module.mix, ScalarMix):
            found[f"a_high/{name}"] = float(module.a_high)
            found[f"a_low/{name}"] = float(module.a_low)
    return found


def gradient_norms(model: torch.nn.Module) -> dict[str, float]:
    """Of the product branch, and of all else."""
    product = {id(p) for module in model.modules() if isinstance(module, CPAggregation) for p in module.parameters()}
    groups: dict[str, list[Tensor]] = {"gradient": [], "gradient/product": []}
    for parameter in model.parameters():
        if parameter.grad is not None:
            groups["gradient/product" if id(parameter) in product else "gradient"].append(parameter.grad)
    return {name: float(torch.nn.utils.get_total_norm(grads)) for name, grads in groups.items() if grads}


def advice(vitals: dict[str, float]) -> str | None:
    """What to do about a product layer that has died, or ``None``."""
    for what, help_ in (
        ("saturated", "a smaller optimizer.cp_lr, or model.factors=weighted or tempered, which tame large degrees"),
        ("vanished", "less model.dropout and input_dropout, or model.factors=weighted, which keeps factors near 1"),
    ):
        for name, share in vitals.items():
            if name.startswith(f"{what}/") and share > DEAD:
                layer = name.partition("/")[2]
                return f"{share:.0%} of the products of {layer} are {what}: nothing is learned there. Try {help_}."
    return None
