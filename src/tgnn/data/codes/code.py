"""A binary linear code, given by its parity-check matrix."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class ParityCheckCode:
    r"""A binary linear code: the vectors :math:`c` with :math:`H c = 0` modulo 2.

    Its factor graph (Tanner graph) has a variable for each bit and a factor for each row of :math:`H`.

    Args:
        name: Name for tables and error messages, such as ``"BCH(63,45)"``.
        parity_check: The matrix :math:`H` of zeros and ones, ``[checks, n]``. Its rows may be linearly dependent.
        num_punctured: Number of bits at the start of a codeword that are not transmitted.

    Example:
        >>> code = ParityCheckCode("repetition", torch.tensor([[1, 1, 0], [0, 1, 1]]))
        >>> code.n, code.k, code.edge_index.tolist()
        (3, 1, [[0, 1, 1, 2], [0, 0, 1, 1]])
        >>> code.encode(torch.tensor([[0], [1]])).tolist()
        [[0, 0, 0], [1, 1, 1]]
    """

    name: str
    parity_check: Tensor
    num_punctured: int = 0

    def __post_init__(self) -> None:
        matrix = self.parity_check
        if matrix.dim() != 2 or not torch.isin(matrix, torch.tensor([0, 1])).all():
            raise ValueError(f"The parity-check matrix of {self.name} must be a matrix of zeros and ones.")
        if self.k < 1:
            raise ValueError(f"{self.name} has no codeword except zero: its parity-check matrix has rank {self.n}.")

    @property
    def n(self) -> int:
        """Number of bits of a codeword."""
        return self.parity_check.size(1)

    @property
    def num_checks(self) -> int:
        """Number of parity checks, the rows of the matrix."""
        return self.parity_check.size(0)

    @property
    def k(self) -> int:
        """Number of information bits: ``n`` minus the rank of the matrix."""
        return self.generator.size(0)

    @property
    def rate(self) -> float:
        """Information bits per transmitted bit, ``k / n`` without puncturing."""
        return self.k / (self.n - self.num_punctured)

    @cached_property
    def edge_index(self) -> Tensor:
        """Edges of the factor graph, from variables to checks, ``[2, E]``, sorted by check."""
        check, variable = self.parity_check.nonzero(as_tuple=True)
        return torch.stack([variable, check])

    @cached_property
    def generator(self) -> Tensor:
        """Generator matrix ``[k, n]``, a basis of the codewords, by Gauss-Jordan elimination modulo 2."""
        matrix = self.parity_check.numpy().astype(bool)
        pivots: list[int] = []
        for column in range(self.n):
            rows = len(pivots) + np.flatnonzero(matrix[len(pivots) :, column])
            if len(rows) == 0:
                continue
            matrix[[len(pivots), rows[0]]] = matrix[[rows[0], len(pivots)]]
            others = np.flatnonzero(matrix[:, column])
            others = others[others != len(pivots)]
            matrix[others] ^= matrix[len(pivots)]
            pivots.append(column)
        free = np.setdiff1d(np.arange(self.n), pivots)
        generator = np.zeros((len(free), self.n), dtype=np.int64)
        generator[np.arange(len(free)), free] = 1
        generator[:, pivots] = matrix[: len(pivots), free].T
        return torch.from_numpy(generator)

    def encode(self, information: Tensor) -> Tensor:
        """Encode information bits.

        Args:
            information: Bits ``[*, k]``.

        Returns:
            Codewords ``[*, n]``.
        """
        return information @ self.generator % 2

    def syndrome(self, bits: Tensor) -> Tensor:
        """Compute the parity of every check, ``[*, checks]``. It is 0 everywhere for a codeword.

        Args:
            bits: Received or decoded bits ``[*, n]``.
        """
        return bits.long() @ self.parity_check.long().T % 2

    def __repr__(self) -> str:
        return f"ParityCheckCode({self.name!r}, n={self.n}, k={self.k}, checks={self.num_checks})"
