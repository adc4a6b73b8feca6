"""The tensor of a layer, against tensorly and against the layer."""

from __future__ import annotations

import pytest
import tensorly
import torch

from tgnn.nn import CPAggregation
from tgnn.theory import dense_tensor

from .test_polynomial import contract, sets


def layer_of(F: int, d: int, R: int, **options: object) -> CPAggregation:
    torch.manual_seed(0)
    layer = CPAggregation(F, d, rank=R, **{"act": None, "act_out": None, **options}).double()
    with torch.no_grad():  # the start has biases of 1, which would hide a wrong row
        for parameter in layer.parameters():
            parameter.normal_()
    return layer


@pytest.mark.parametrize(("F", "d", "R", "k"), [(1, 1, 1, 1), (2, 3, 4, 2), (3, 2, 5, 3), (2, 1, 2, 5)])
def test_against_tensorly(F, d, R, k):
    layer = layer_of(F, d, R)
    W, M = layer.W.detach().numpy(), layer.M.detach().numpy()
    expected = tensorly.cp_to_tensor((None, [*[W] * k, M]))
    T = dense_tensor(layer, k)
    assert T.shape == (F + 1,) * k + (d,)
    torch.testing.assert_close(T.detach(), torch.from_numpy(expected), rtol=0, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"scaled": True}, {"act_out": "tanh"}])
def test_contracting_it_is_calling_the_layer(options):
    layer = layer_of(3, 2, 5, **options)
    for x in sets(3, 4, 5):
        expected = contract(dense_tensor(layer, 4), x)
        expected = expected.tanh() if "act_out" in options else expected
        torch.testing.assert_close(layer(x, torch.zeros(4, dtype=torch.long))[0], expected, rtol=0, atol=1e-11)


def test_it_is_differentiable():
    layer = layer_of(2, 2, 3)
    dense_tensor(layer, 3).square().sum().backward()
    assert layer.M.grad.abs().min() > 0
    assert layer.lin.weight.grad.abs().min() > 0


def test_activations_around_it_change_nothing():
    plain = layer_of(2, 2, 3)
    default = CPAggregation(2, 2, rank=3).double()
    default.load_state_dict(plain.state_dict())
    assert torch.equal(dense_tensor(default, 2), dense_tensor(plain, 2))


def test_wrong_input_is_named():
    with pytest.raises(ValueError, match="k is 0"):
        dense_tensor(layer_of(2, 1, 1), 0)
    with pytest.raises(ValueError, match="factor_act=Tanh"):
        dense_tensor(layer_of(2, 1, 1, factor_act="tanh"), 2)
    with pytest.raises(ValueError, match="k=30 with 2 features .* needs .* call the layer"):
        dense_tensor(layer_of(2, 1, 1), 30)
    with pytest.raises(ValueError, match="run it once first"):
        dense_tensor(CPAggregation(-1, 2, rank=3), 2)
