"""Train tGNN on Cora, and print the test accuracy beside the paper's and the folder of the run.

Run: make demo. It is the same as ``tgnn train cora``. Cora is installed with tgnn, so that nothing is downloaded.
"""

from __future__ import annotations

import sys

from tgnn.cli.app import main

if __name__ == "__main__":
    sys.argv = ["tgnn", "train", "cora", *sys.argv[1:]]
    main()
