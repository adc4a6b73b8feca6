"""Train tGNN on Cora, and print the test accuracy beside the paper's and the folder of the run.

Run: make demo. It is the same as ``tgnn train cora``. Without a network, the digits graph of the package is used.
"""

from __future__ import annotations

import sys

from tgnn.cli.app import main
from tgnn.data import load
from tgnn.data.download.locate import DatasetUnavailableError


def available_dataset() -> str:
    """Return ``"cora"``, or ``"digits"`` if Cora cannot be downloaded."""
    try:
        load("cora")
    except DatasetUnavailableError:
        print("Cora could not be downloaded (see: tgnn data fetch cora). Training on the digits graph instead.")
        return "digits"
    return "cora"


if __name__ == "__main__":
    sys.argv = ["tgnn", "train", available_dataset(), *sys.argv[1:]]
    main()
