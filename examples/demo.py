"""The main job: train tGNN on Cora, watch it learn, see the result beside the paper's. Run: make demo."""

from __future__ import annotations

import sys

from tgnn.cli.app import main
from tgnn.data import load
from tgnn.data.download.locate import DatasetUnavailableError


def choose() -> str:
    """Cora, or what comes with the package where Cora cannot be had."""
    try:
        load("cora")
    except DatasetUnavailableError:
        print("Cora cannot be had here (tgnn data fetch cora says why): training on scikit-learn's digits instead.")
        return "digits"
    return "cora"


if __name__ == "__main__":
    sys.argv = ["tgnn", "train", choose(), *sys.argv[1:]]
    main()
