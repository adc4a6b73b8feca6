"""Random codewords sent over a channel with additive white Gaussian noise (AWGN)."""

from __future__ import annotations

import torch
from torch import Tensor

from tgnn.data.codes.code import ParityCheckCode


def awgn_frames(code: ParityCheckCode, ebn0_db: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    r"""Draw random codewords, and simulate their transmission with BPSK over an AWGN channel.

    Bit 0 is sent as +1 and bit 1 as -1. The noise has the standard deviation
    :math:`\sigma = (2 \, \text{rate} \cdot E_b/N_0)^{-1/2}`, and the log-likelihood ratio of a received value
    :math:`y` is :math:`2 y / \sigma^2`. It is 0 for punctured bits.

    Args:
        code: The code.
        ebn0_db: Signal-to-noise ratio :math:`E_b/N_0` of each frame in decibels, ``[B]``.
        generator: Random generator. Use different seeds for training, validation and test frames.

    Returns:
        Log-likelihood ratios ``log(p(0) / p(1))``, ``[B, n]``, and codewords ``[B, n]``.

    Example:
        >>> from tgnn.data.codes import bch_code
        >>> llr, codewords = awgn_frames(bch_code(63, 45), torch.full((2,), 40.0), torch.Generator().manual_seed(0))
        >>> torch.equal(llr < 0, codewords == 1)
        True
    """
    information = torch.randint(2, (len(ebn0_db), code.k), generator=generator)
    codewords = code.encode(information)
    sigma = (2 * code.rate * 10 ** (ebn0_db / 10)).rsqrt().unsqueeze(1)
    noise = torch.randn(codewords.shape, generator=generator)
    llr = 2 * (1 - 2 * codewords + sigma * noise) / sigma**2
    llr[:, : code.num_punctured] = 0
    return llr, codewords
