"""Reader of parity-check matrices in MacKay's alist format."""

from __future__ import annotations

from pathlib import Path

import torch

from tgnn.data.codes.code import ParityCheckCode


def read_alist(path: Path | str) -> ParityCheckCode:
    r"""Read a parity-check matrix in alist format.

    The first line of the file has the numbers of variables and checks. The second line has the largest degrees, and the
    next two lines have all degrees. Then one line per variable lists its checks, and one line per check lists its
    variables. Indices start at 1. Zeros are padding.

    Args:
        path: Path of the file.

    Example:
        >>> path = getfixture("tmp_path") / "repetition.alist"
        >>> _ = path.write_text("3 2\n2 2\n1 2 1\n2 2\n1 0\n1 2\n2 0\n1 2\n2 3\n")
        >>> read_alist(path).parity_check.tolist()
        [[1, 1, 0], [0, 1, 1]]
    """
    path = Path(path)
    rows = [_numbers(path, line, text) for line, text in enumerate(path.read_text().splitlines(), 1) if text.strip()]
    if not rows or len(rows[0]) != 2 or min(rows[0]) < 1:
        raise ValueError(f"{path} is not an alist file: its first line must have the numbers of variables and checks.")
    n, num_checks = rows[0]
    if len(rows) < 4 + n + num_checks:
        expected = f"{4 + n + num_checks} lines for {n} variables and {num_checks} checks"
        raise ValueError(f"{path} is truncated: it has {len(rows)} lines instead of {expected}.")
    of_variables = _matrix(path, rows[4 : 4 + n], num_checks, "variable")
    of_checks = _matrix(path, rows[4 + n : 4 + n + num_checks], n, "check")
    if not torch.equal(of_variables.T, of_checks):
        check, variable = (of_checks != of_variables.T).nonzero()[0].tolist()
        raise ValueError(
            f"{path} contradicts itself: only one of variable {variable + 1} and check {check + 1} lists the other."
        )
    return ParityCheckCode(path.name.split(".")[0], of_checks)


def _numbers(path: Path, line: int, text: str) -> list[int]:
    try:
        return [int(word) for word in text.split()]
    except ValueError:
        raise ValueError(f"{path}, line {line}: {text.strip()[:40]!r} is not a list of integers.") from None


def _matrix(path: Path, rows: list[list[int]], size: int, kind: str) -> torch.Tensor:
    """Return the 0/1 matrix of lists of 1-based column indices."""
    matrix = torch.zeros(len(rows), size, dtype=torch.int64)
    for row, indices in enumerate(rows):
        for index in indices:
            if not 0 <= index <= size:
                raise ValueError(f"{path}: {kind} {row + 1} lists {index}, but indices go from 1 to {size}.")
            if index:
                matrix[row, index - 1] = 1
    return matrix
