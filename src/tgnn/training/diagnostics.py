"""Diagnostics of the product branch: saturated and vanished products, gradient norms and branch weights."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from tgnn.nn import CPAggregation, TGNNConv
from tgnn.nn.mixing import ScalarMix
from tgnn.training.optim import split_parameters

_SATURATED, _VANISHED = 0.99, 1e-4
"""Absolute values of tanh above which a product is saturated, and below which it has vanished."""
_DEAD_FRACTION = 0.95
"""Fraction of saturated or vanished products from which a layer is reported."""
_REMEDIES = {
    "saturated": "a smaller optimizer.cp_lr, or model.factors=weighted or tempered, which limit products of many "
    "neighbors",
    "vanished": "less model.dropout and input_dropout, or model.factors=weighted, which keeps factors near 1",
}


@contextlib.contextmanager
def observe_products(model: torch.nn.Module, products: dict[str, Tensor]) -> Iterator[None]:
    """Collect the activated products of every CP layer in a forward pass, by the name of the layer."""
    layers = {name: module for name, module in model.named_modules() if isinstance(module, CPAggregation)}
    for name, layer in layers.items():
        layer.product_hook = lambda product, name=name: products.__setitem__(name, product.detach())
    try:
        yield
    finally:
        for layer in layers.values():
            layer.product_hook = None


def product_statistics(products: Mapping[str, Tensor]) -> dict[str, float]:
    """Compute the fractions of saturated and vanished products of each layer.

    A product is saturated if the absolute value of its tanh is above 0.99, and vanished if it is below 1e-4. In both
    cases its gradient is nearly 0.
    """
    statistics = {}
    for name, product in products.items():
        magnitude = product.abs()
        statistics[f"saturated/{name}"] = float((magnitude > _SATURATED).float().mean())
        statistics[f"vanished/{name}"] = float((magnitude < _VANISHED).float().mean())
    return statistics


def branch_weights(model: torch.nn.Module) -> dict[str, float]:
    """Return the learned weights ``a_high`` and ``a_low`` of every layer with ``mix="scalar"``."""
    weights = {}
    for name, module in model.named_modules():
        if isinstance(module, TGNNConv) and isinstance(module.mix, ScalarMix):
            weights[f"a_high/{name}"] = float(module.a_high)
            weights[f"a_low/{name}"] = float(module.a_low)
    return weights


def gradient_norms(model: torch.nn.Module) -> dict[str, float]:
    """Compute the gradient norm of the product branch and of all other parameters."""
    norms = {}
    for name, parameters in zip(("gradient", "gradient/product"), split_parameters(model)):
        if grads := [parameter.grad for parameter in parameters if parameter.grad is not None]:
            norms[name] = float(torch.nn.utils.get_total_norm(grads))
    return norms


def advice(statistics: Mapping[str, float]) -> str | None:
    """Return a warning about a layer whose products are saturated or vanished, or ``None``."""
    for state, remedy in _REMEDIES.items():
        for name, fraction in statistics.items():
            if name.startswith(f"{state}/") and fraction > _DEAD_FRACTION:
                layer = name.partition("/")[2]
                return (
                    f"{fraction:.0%} of the products of {layer} are {state}, so the layer does not train. Try {remedy}."
                )
    return None
